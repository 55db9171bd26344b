"""The plots of a report, each a function from a run to an SVG picture."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from xoff.rundata import QueueKey, RunData
from xoff.waitfor import cycle_at

MAX_SERIES = 10
"""Lines a person can tell apart in one picture."""

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "svg.hashsalt": "xoff",
        "figure.constrained_layout.use": True,
    }
)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _axes(height: float = 3.2) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(9, height))
    return figure, axes


def _begin(data: RunData) -> int:
    """When the traffic began, on the run's clock."""
    return int(data.collective["start"]) if data.collective is not None else 0


def _us(data: RunData, t: float) -> float:
    """Fabric microseconds since the traffic began."""
    return (t - _begin(data)) / data.plan.time_scale / 1e3


TIME_LABEL = "fabric time since the traffic began (us)"


def _peer(data: RunData, node: str, port: int) -> str:
    for switch in data.plan.switches:
        if switch.name == node:
            return next((p.peer for p in switch.ports if p.number == port), str(port))
    return next((h.switch for h in data.plan.hosts if h.name == node), str(port))


def queue_depths(data: RunData) -> str | None:
    """Bytes in the fullest switch queues over time, with the ECN and PFC thresholds."""
    hosts = {h.name for h in data.plan.hosts}
    ranked = sorted(
        (key for key in data.queues if key[0] not in hosts),
        key=lambda key: max(b for _, b in data.queues[key]),
        reverse=True,
    )[:MAX_SERIES]
    if not ranked:
        return None
    figure, axes = _axes()
    for node, port, cls in ranked:
        series = data.queues[node, port, cls]
        axes.plot(
            [_us(data, t) for t, _ in series],
            [b / 1024 for _, b in series],
            label=f"{node}→{_peer(data, node, port)} c{cls}",
            linewidth=1.2,
        )
    policy = data.plan.classes.get(ranked[0][2])
    if policy is not None and policy.ecn_kmax_bytes and data.experiment.ecn:
        for bytes_, name in ((policy.ecn_kmin_bytes, "Kmin"), (policy.ecn_kmax_bytes, "Kmax")):
            axes.axhline(bytes_ / 1024, color="grey", linestyle=":", linewidth=1)
            axes.annotate(name, (axes.get_xlim()[0], bytes_ / 1024), color="grey", va="bottom")
    axes.set(xlabel=TIME_LABEL, ylabel="queue (KiB)", ylim=(0, None))
    axes.legend(loc="upper right", fontsize=7, ncols=2)
    return _svg(figure)


RATE_BINS = 40
"""A rate is a mean over this share of the time shown: acknowledgements come in steps."""


def _rates(samples: Iterable[tuple[int, int]], begin: int, end: int) -> tuple[list[float], list[float]]:
    """(middle of the interval in ns, bit/s) from cumulative (t, bytes)."""
    width = max(1, (end - begin) // RATE_BINS)
    times: list[float] = []
    rates: list[float] = []
    t0, b0 = begin, 0
    for t1, b1 in sorted(samples):
        if t1 - t0 >= width:
            times.append((t0 + t1) / 2)
            rates.append((b1 - b0) * 8e9 / (t1 - t0))
            t0, b0 = t1, b1
    return times, rates


def flow_throughput(data: RunData) -> str | None:
    """Acknowledged payload rate per flow, in fabric Gb/s; per sender when there are many flows."""
    series: dict[str, dict[int, int]] = defaultdict(dict)
    per_flow = len(data.flows) <= 2 * MAX_SERIES
    totals: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (node, dst, qp), samples in data.flows.items():
        if per_flow:
            series[f"{node}→{dst} #{qp}"] = {s["t"]: s["acked"] for s in samples}
        else:
            for sample in samples:
                totals[node][sample["t"]] += sample["acked"]
    series = series if per_flow else totals
    if not series:
        return None
    figure, axes = _axes()
    for name, samples_by_time in sorted(series.items()):
        times, rates = _rates(samples_by_time.items(), _begin(data), data.end)
        axes.plot(
            [_us(data, t) for t in times],
            [r * data.plan.time_scale / 1e9 for r in rates],
            label=name,
            linewidth=1,
        )
    axes.set(xlabel=TIME_LABEL, ylabel="goodput (Gb/s)", ylim=(0, None))
    if len(series) <= 2 * MAX_SERIES:
        figure.legend(loc="outside right center", fontsize=6)
    return _svg(figure)


def pauses_per_link(data: RunData) -> str | None:
    """When each queue was paused, a row per queue, longest first."""
    rows: dict[QueueKey, list[tuple[float, float]]] = defaultdict(list)
    for pause in data.pauses:
        start, end = _us(data, pause.start), _us(data, pause.end)
        rows[pause.node, pause.port, pause.cls].append((start, max(end - start, 1e-3)))
    if not rows:
        return None
    order = sorted(rows, key=lambda key: sum(length for _, length in rows[key]), reverse=True)[:30]
    figure, axes = _axes(0.8 + 0.22 * len(order))
    for row, key in enumerate(order):
        axes.broken_barh(rows[key], (row - 0.4, 0.8), color="tab:red")
    axes.set_yticks(range(len(order)), [f"{n}→{_peer(data, n, p)} c{c}" for n, p, c in order], fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel=TIME_LABEL, xlim=(0, max(_us(data, data.end), 1e-9)))
    return _svg(figure)


def positions(data: RunData) -> dict[str, tuple[float, float]]:
    """Where to draw every switch and host, in the unit square; hosts hang below their switch."""
    places = {s.name: s.position for s in data.plan.switches}
    attached: dict[str, list[str]] = defaultdict(list)
    for host in data.plan.hosts:
        attached[host.switch].append(host.name)
    width = 0.8 / max(len(data.plan.hosts), 1)
    for switch_name, names in attached.items():
        x, y = places[switch_name]
        for i, name in enumerate(names):
            places[name] = (x + (i - (len(names) - 1) / 2) * width, y - 0.14)
    return places


def link_loads(data: RunData) -> dict[tuple[str, str, int], float]:
    """Mean share of each direction's rate over the collective (or the run): (node, peer, port) -> 0..1."""
    start, end = 0, data.end
    if data.collective is not None:
        start = data.collective["start"]
        end = data.collective.get("end") or data.end
    loads: dict[tuple[str, str, int], float] = {}
    rates = {(s.name, p.number): (p.peer, p.rate_bps) for s in data.plan.switches for p in s.ports}
    rates |= {(h.name, 0): (h.switch, h.rate_bps) for h in data.plan.hosts}
    for (node, port), samples in data.ports.items():
        if (node, port) not in rates or len(samples) < 2 or end <= start:
            continue
        peer, rate = rates[node, port]
        sent = samples[-1]["tx_bytes"] - samples[0]["tx_bytes"]
        loads[node, peer, port] = min(1.0, sent * 8e9 / (end - start) / data.plan.wall_rate(rate))
    return loads


LOAD = LinearSegmentedColormap.from_list("load", ["#d8dde4", "#7fb3d5", "#2166ac", "#3b0f70"])
"""An idle link is there and pale; red is left to deadlocks."""


def fabric_picture(data: RunData) -> str:
    """The fabric with every link coloured by its load; a cycle of paused queues is drawn over it in red."""
    places = positions(data)
    loads = link_loads(data)
    figure, axes = plt.subplots(figsize=(9, 5))
    segments, colours = [], []
    for switch in data.plan.switches:
        for port in switch.ports:
            if switch.name < port.peer or port.kind == "host":
                segments.append([places[switch.name], places[port.peer]])
                colours.append(
                    max(
                        loads.get((switch.name, port.peer, port.number), 0.0),
                        loads.get((port.peer, switch.name, port.peer_port), 0.0),
                    )
                )
    lines = LineCollection(segments, array=colours, cmap=LOAD, linewidths=2.5, zorder=1)
    lines.set_clim(0, 1)
    axes.add_collection(lines)
    figure.colorbar(lines, ax=axes, label="load of the busier direction", shrink=0.7)
    hosts = {h.name for h in data.plan.hosts}
    for name, (x, y) in places.items():
        is_host = name in hosts
        axes.scatter([x], [y], s=60 if is_host else 260, marker="o" if is_host else "s", color="white",
                     edgecolors="black", zorder=3)  # fmt: skip
        axes.annotate(name, (x, y), ha="center", va="center", fontsize=5 if is_host else 6, zorder=4)
    for node, out_port, _ in cycle_at(data, data.end):
        axes.annotate(
            "", places[_peer(data, node, out_port)], places[node],
            arrowprops={"arrowstyle": "-|>", "color": "red", "lw": 2.5, "shrinkA": 9, "shrinkB": 9}, zorder=5,
        )  # fmt: skip
    axes.set_axis_off()
    axes.autoscale_view()
    axes.margins(0.05)
    return _svg(figure)


def completion_times(data: RunData) -> str | None:
    """Cumulative distribution of message completion times, in fabric time."""
    times = sorted((m["end"] - m["start"]) / data.plan.time_scale / 1e3 for m in data.messages)
    if len(times) < 2:
        return None
    figure, axes = _axes(2.6)
    axes.step(times, [(i + 1) / len(times) for i in range(len(times))], where="post")
    axes.set(xlabel="message completion (us, fabric time)", ylabel="share of messages", ylim=(0, 1.02))
    return _svg(figure)
