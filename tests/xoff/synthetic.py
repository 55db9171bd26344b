"""A small run folder made by hand: three switches in a ring, a host on each, a pause cycle among them."""

from __future__ import annotations

import json
from pathlib import Path

from topologies.plan import ClassPolicy, FabricPlan, HostPlan, PortPlan, Route, SwitchPlan
from xoff.experiment import Experiment
from xoff.records import RecordWriter

RATE = 10**11
MS = 10**6


def ring_plan(scale: float = 1000.0) -> FabricPlan:
    """Switch sN: port 1 to its host hN, port 2 clockwise, port 3 counter-clockwise."""
    switches, hosts = [], []
    for i in range(3):
        after, before = (i + 1) % 3, (i - 1) % 3
        mac = "02:00:00:00:{:02x}:{:02x}".format
        switches.append(
            SwitchPlan(
                name=f"s{i}",
                device_id=i + 1,
                layer="node",
                ports=(
                    PortPlan(1, mac(i, 1), f"h{i}", 0, mac(i, 9), RATE, 1000, "host"),
                    PortPlan(2, mac(i, 2), f"s{after}", 3, mac(after, 3), RATE, 1000, "local"),
                    PortPlan(3, mac(i, 3), f"s{before}", 2, mac(before, 2), RATE, 1000, "local"),
                ),
                routes=(Route(f"10.0.{after}.0/24", (2,)), Route(f"10.0.{before}.0/24", (2,))),
                hash_seed=i,
                position=((0.5, 0.9), (0.9, 0.3), (0.1, 0.3))[i],
            )
        )
        hosts.append(HostPlan(f"h{i}", i, mac(i, 9), f"10.0.{i}.1", f"s{i}", 1, mac(i, 1), RATE, 1000))
    return FabricPlan(
        name="ring:n=3",
        switches=tuple(switches),
        hosts=tuple(hosts),
        classes={3: ClassPolicy(lossless=True, xoff_bytes=20000, xon_bytes=10000, ecn_kmin_bytes=5000,
                                ecn_kmax_bytes=20000, ecn_pmax=0.2)},
        time_scale=scale,
    )  # fmt: skip


def write_run(folder: Path, *, deadlocked: bool = False) -> Path:
    """Write the run folder: one 1 MB collective of 100 ms wall, some pauses, marks, drops."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = ring_plan()
    plan.write(folder / "plan.json")
    (folder / "experiment.yaml").write_text(
        Experiment(name="made", topology="ring:n=3", time_scale=1000.0).to_yaml()
    )
    (folder / "run.json").write_text(json.dumps({"switch": "native", "finished": not deadlocked}))
    with RecordWriter(folder / "records" / "switch.jsonl") as write:
        for step in range(11):
            t = step * 10 * MS
            for i in range(3):
                write("queue", t, node=f"s{i}", port=2, **{"class": 3}, bytes=2000 * step, packets=2 * step)
                for port, share in ((1, 1), (2, 3), (3, 1)):
                    write("port", t, node=f"s{i}", port=port, tx_bytes=share * step * 1000, tx_packets=step,
                          rx_bytes=0, rx_packets=0)  # fmt: skip
        for i in range(3):
            write("pause", 50 * MS, node=f"s{i}", port=2, **{"class": 3}, until=80 * MS)
            if deadlocked:
                write("pause", 75 * MS, node=f"s{i}", port=2, **{"class": 3}, until=400 * MS)
            else:
                write("pause", 60 * MS, node=f"s{i}", port=2, **{"class": 3}, until=0)
        write("drop", 90 * MS, node="s0", port=2, **{"class": 0}, reason="queue_limit", packets=2, bytes=2000)
        write("drop", 99 * MS, node="s0", port=2, **{"class": 0}, reason="queue_limit", packets=5, bytes=5000)
    with RecordWriter(folder / "records" / "hosts-0.jsonl") as write:
        for i in range(3):
            dst = f"h{(i + 2) % 3}"
            for step in range(11):
                write(
                    "flow",
                    step * 10 * MS,
                    node=f"h{i}",
                    dst=dst,
                    qp=i,
                    sent=step * 1000,
                    acked=step * 1000,
                    rate=1e11,
                )
            write("message", 100 * MS, id=i, src=f"h{i}", dst=dst, bytes=1_000_000, sport=50000 + i, qp=i, post=0,
                  start=0, end=(100 - 10 * i) * MS, retransmitted=4 * (i == 1))  # fmt: skip
        write("cnp", 55 * MS, node="h0", qp=1, dir="tx")
        write("cnp", 56 * MS, node="h1", qp=1, dir="rx")
        write("retransmit", 57 * MS, node="h1", qp=1, psn=7, cause="nak")
    with RecordWriter(folder / "records" / "controller.jsonl") as write:
        for count in (3, 9):
            write(
                "counter",
                count * MS,
                node="s1",
                name="ecn_marked",
                port=2,
                **{"class": 3},
                packets=count,
                bytes=0,
            )
    with RecordWriter(folder / "records" / "run.jsonl") as write:
        write("collective", 100 * MS, op="allreduce", ranks=3, bytes=1_000_000, start=0,
              end=None if deadlocked else 100 * MS, ideal_ns=80_000, busbw_factor=4 / 3,
              payload_ceiling=0.92)  # fmt: skip
    return folder
