"""The `xoff` command."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from xoff.errors import XoffError
from xoff.experiment import Experiment, load
from xoff.sweep.command import sweep

app = typer.Typer(
    name="xoff",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="A laboratory for lossless AI fabrics: P4 switches in Mininet, RoCEv2 collectives, PFC, ECN, INT.\n\n"
    "Start with `xoff demo`; then `xoff run --help` for every option, `xoff topo SPEC` to see a fabric "
    "before it is built, `xoff shell SWITCH` for a P4Runtime shell on a running switch.",
)

err = Console(stderr=True)

_EXPERIMENT = "An experiment file (YAML; any option below is a key in it)."
_RUNS = Path("runs")


def _option(name: str) -> Any:
    """A typer option that takes its help from the experiment's field; None means: not given."""
    field = Experiment.__dataclass_fields__[name]
    default = getattr(Experiment(), name)
    return typer.Option(
        help=field.metadata["help"] + (f". Default: {default}" if default != "" else ""), show_default=False
    )


def _flag(name: str) -> Any:
    field = Experiment.__dataclass_fields__[name]
    return typer.Option(
        f"--{name}/--no-{name}",
        help=f"{field.metadata['help']}. Default: {'on' if getattr(Experiment(), name) else 'off'}",
        show_default=False,
    )


Text = str | None
JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print the summary as one JSON object (docs/records.md).")
]
OutFolder = Annotated[Path, typer.Option(help="Folder that gets the run's own folder.")]


@app.command()
def run(
    file: Annotated[Path | None, typer.Argument(help=_EXPERIMENT)] = None,
    name: Annotated[Text, _option("name")] = None,
    topology: Annotated[Text, _option("topology")] = None,
    workload: Annotated[Text, _option("workload")] = None,
    load_balancing: Annotated[Text, _option("load_balancing")] = None,
    wcmp: Annotated[bool | None, _flag("wcmp")] = None,
    ecn: Annotated[bool | None, _flag("ecn")] = None,
    ecn_preset: Annotated[Text, _option("ecn_preset")] = None,
    pfc: Annotated[bool | None, _flag("pfc")] = None,
    telemetry: Annotated[Text, _option("telemetry")] = None,
    congestion_control: Annotated[Text, _option("congestion_control")] = None,
    rate: Annotated[Text, _option("rate")] = None,
    delay: Annotated[Text, _option("delay")] = None,
    time_scale: Annotated[float | None, _option("time_scale")] = None,
    mtu: Annotated[int | None, _option("mtu")] = None,
    seed: Annotated[int | None, _option("seed")] = None,
    switch: Annotated[Text, _option("switch")] = None,
    links: Annotated[Text, _option("links")] = None,
    packet_threads: Annotated[int | None, _option("packet_threads")] = None,
    controller: Annotated[Text, _option("controller")] = None,
    clock: Annotated[Text, _option("clock")] = None,
    program: Annotated[Text, _option("program")] = None,
    control_latency: Annotated[Text, _option("control_latency")] = None,
    reroute: Annotated[bool | None, _flag("reroute")] = None,
    sample: Annotated[Text, _option("sample")] = None,
    stop_after: Annotated[Text, _option("stop_after")] = None,
    time_limit: Annotated[Text, _option("time_limit")] = None,
    hold: Annotated[bool | None, _flag("hold")] = None,
    pcap: Annotated[bool | None, _flag("pcap")] = None,
    out: OutFolder = _RUNS,
    as_json: JsonFlag = False,
) -> None:
    """Build a fabric, run a workload over it, and leave a run folder with records and a report.

    Every option is also a key of an experiment file; options given here win. The Mininet clock needs root.

    Examples:

    `xoff run --workload incast:bytes=2MB,senders=15 --no-pfc`

    `xoff run --topology dragonflyplus:groups=3 --load-balancing adaptive`

    `xoff run experiment.yaml --seed 7 --json`
    """
    experiment = load(file) if file is not None else Experiment()
    experiment = experiment.with_options(
        name=name, topology=topology, workload=workload, load_balancing=load_balancing, wcmp=wcmp,
        ecn=ecn, ecn_preset=ecn_preset,
        pfc=pfc, telemetry=telemetry, congestion_control=congestion_control, rate=rate, delay=delay,
        time_scale=time_scale, mtu=mtu, seed=seed, switch=switch, controller=controller, clock=clock, program=program,
        links=links, packet_threads=packet_threads,
        control_latency=control_latency, reroute=reroute, sample=sample, stop_after=stop_after,
        time_limit=time_limit, hold=hold, pcap=pcap,
    )  # fmt: skip
    _run(experiment, out, as_json)


@app.command()
def demo(
    load_balancing: Annotated[Text, _option("load_balancing")] = None,
    switch: Annotated[Text, _option("switch")] = None,
    clock: Annotated[Text, _option("clock")] = None,
    out: OutFolder = _RUNS,
    as_json: JsonFlag = False,
) -> None:
    """The main job: a k=4 fat-tree of 20 P4 switches and a 16-rank ring AllReduce over RoCEv2."""
    experiment = Experiment(name="demo").with_options(
        load_balancing=load_balancing, switch=switch, clock=clock
    )
    _run(experiment, out, as_json)


def _run(experiment: Experiment, out: Path, as_json: bool) -> None:
    from xoff.run import execute

    summary = execute(experiment, out)
    _print_summary(
        f"{summary['name']}: {summary['topology']}, {summary['switch']} switches", summary, as_json
    )
    if not summary["finished"] and not experiment.stop_after:
        raise XoffError(
            f"the workload did not finish within {experiment.time_limit}; see {summary['run']}/report.html."
        )


def _print_summary(title: str, summary: dict[str, Any], as_json: bool) -> None:
    """The figures on stdout; what a person should know besides, and where the page is, on stderr."""
    from xoff.report.table import remarks, rows

    if as_json:
        print(json.dumps(summary))
    else:
        _print_table(title, rows(summary))
    for remark in remarks(summary):
        err.print(f"[yellow]note:[/yellow] {escape(remark)}", highlight=False, soft_wrap=True)
    if not as_json:
        err.print(f"report: [bold]{escape(summary['run'])}/report.html[/bold]", soft_wrap=True)


def _print_table(title: str, rows: list[tuple[str, str]]) -> None:
    table = Table(title=escape(title), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for key, value in rows:
        table.add_row(escape(key), escape(value))
    Console().print(table)


app.command(name="sweep")(sweep)


@app.command()
def topo(
    spec: Annotated[
        str, typer.Argument(help="fattree:k=4,oversubscription=2, dragonflyplus:…, or a topology.txt")
    ],
    rate: Annotated[str, _option("rate")] = "100Gbps",
    as_json: JsonFlag = False,
) -> None:
    """Say what would be built: counts, bisection, oversubscription, path widths, deadlock freedom.

    Families, parameters and their defaults: docs/topologies.md. Examples:

    `xoff topo fattree:k=4,oversubscription=2`

    `xoff topo dragonflyplus:groups=3,leaves=2,spines=2,hosts_per_leaf=2`

    `xoff topo torus:dims=4x4x4`

    `xoff topo rail:servers=4,rails=4`

    `xoff topo ring:n=3,routes=clockwise`
    """
    from xoff.prepare import describe_topology
    from xoff.report.table import topology_rows

    facts = describe_topology(spec, rate)
    if as_json:
        print(json.dumps(facts))
    else:
        _print_table(spec, topology_rows(facts))


@app.command()
def shell(
    switch: Annotated[str, typer.Argument(help="Name of a switch of the running fabric, e.g. e1.")],
) -> None:
    """Open p4runtime-shell on a switch of the fabric that is running now.

    In a second terminal, while `xoff run` goes on, or stays after it (`--hold`); as the same user. The shell
    reads beside the controller and takes nothing away from it. In the shell:

    `tables`

    `for e in table_entry["FabricIngress.routing.ipv4_lpm"].read(): print(e)`

    `counter_entry["pfc_tx"].read(lambda c: c.packet_count and print(c))`
    """
    from xoff.shell import open_shell

    sys.exit(open_shell(switch))


@app.command()
def trace(
    switch: Annotated[str | None, typer.Argument(help="Show what this switch does, step by step.")] = None,
    sender: Annotated[Text, typer.Option("--from", help="Host that sends, e.g. h1.")] = None,
    receiver: Annotated[Text, typer.Option("--to", help="Host that it is for, e.g. h9.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--experiment", help="Experiment whose fabric it is (runs/…/experiment.yaml)."),
    ] = None,
    topology: Annotated[Text, _option("topology")] = None,
    size: Annotated[
        int, typer.Option("--bytes", help="Payload; what is beyond the MTU is not followed.")
    ] = 1024,
    traffic_class: Annotated[int, typer.Option("--class", help="Traffic class, 0 to 7.")] = 3,
    full: Annotated[bool, typer.Option("--full", help="Every step of every switch.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
    program: Annotated[
        Path | None, typer.Option(help="Instead of a fabric: one switch with this program (BMv2 JSON)…")
    ] = None,
    p4info: Annotated[Path | None, typer.Option(help="…its P4Info…")] = None,
    entries: Annotated[
        Path | None, typer.Option(help="…its entries (commands of simple_switch_CLI)…")
    ] = None,
    packet: Annotated[Text, typer.Option(help="…a frame in hexadecimal…")] = None,
    port: Annotated[int, typer.Option(help="…and the port on which it comes in.")] = 1,
) -> None:
    """Follow one RoCE packet through the fabric: ports, tables and actions of each hop, in simulated time.

    Needs neither root nor a running fabric: switches are programmed as the controller does. Examples:

    `xoff trace --from h1 --to h9`

    `xoff trace e1 --from h1 --to h9`

    `xoff trace --from h1 --to h3 --topology ring:n=3,routes=clockwise --full`

    `xoff trace --program prog.json --p4info prog.p4info.txtpb --packet 0011… --port 1`
    """
    of_fabric = {
        "SWITCH": switch,
        "--from": sender,
        "--to": receiver,
        "--experiment": file,
        "--topology": topology,
    }
    of_program = {"--p4info": p4info, "--entries": entries, "--packet": packet}
    strays = (
        of_program if program is None and sender is not None else of_fabric if program is not None else {}
    )
    for name, value in strays.items():
        if value is not None:
            other = "goes with --program" if program is None else "does not go with it"
            raise XoffError(f"trace: --program traces one switch, without a fabric; {name} {other}.")
    if program is not None:
        from switch.trace import main as trace_one

        options = {"--p4info": p4info, "--entries": entries, "--packet": packet, "--port": port}
        words = [str(word) for pair in options.items() if pair[1] is not None for word in pair]
        sys.exit(trace_one([str(program), *words, *(["--json"] if as_json else [])]))
    if sender is None or receiver is None:
        raise XoffError("trace: give two hosts, --from h1 --to h9, or a program and a packet.")
    experiment = (load(file) if file is not None else Experiment()).with_options(topology=topology)
    from xoff.tracing import trace_journey

    journey = trace_journey(experiment, sender, receiver, switch, size, traffic_class)
    print(
        json.dumps(journey.plain()) if as_json else journey.text(full=full or switch is not None, only=switch)
    )


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A run folder (runs/…).")], as_json: JsonFlag = False
) -> None:
    """Make a run's summary, page and HPCC files again from its records."""
    from xoff.run import write_reports

    summary = write_reports(folder)
    _print_summary(summary["name"], summary, as_json)


@app.command()
def clean() -> None:
    """Remove what crashed runs left behind: their processes, interfaces and namespaces, and nothing else.

    Run folders stay. A run that is going on is left alone.
    """
    from xoff.clean import clean as clean_up

    for line in clean_up():
        print(line)


def main() -> None:
    """Entry point: an error a person can act on is one sentence on stderr and exit code 1."""
    from compiler.errors import CompileError
    from topologies.fabric import TopologyError
    from traffic.errors import TrafficError

    before = signal.signal(signal.SIGINT, _interrupted)
    try:
        app()
    except (XoffError, TopologyError, TrafficError, CompileError) as error:
        err.print(f"[red]xoff:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except OSError as error:
        # A full or read-only disk, a missing right: the only errors of the machine that reach this far.
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror or error}."
        err.print(f"[red]xoff:[/red] {escape(text)}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except _Stopped:
        err.print("[red]xoff:[/red] stopped by SIGINT.", highlight=False)
        sys.exit(1)
    finally:
        signal.signal(signal.SIGINT, before)


class _Stopped(BaseException):
    """Ctrl-C. No Exception, because libraries catch those, and no KeyboardInterrupt, because typer does."""


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Ctrl-C outside a run, which handles it itself: nothing is there that would have to be removed."""
    raise _Stopped


if __name__ == "__main__":
    main()
