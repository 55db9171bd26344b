"""The command line of the switch process: its own, and simple_switch_grpc's.

    python -m switch.native --devices devices.json [--records FILE] [--sample-ms 50] [--epoch NS] [--threads N]
    python -m switch.native -i 1@s1-eth1 --device-id 1 prog.json -- --grpc-server-addr 127.0.0.1:50051

The second form takes every option that simple_switch_grpc takes; options that mean nothing here are accepted and
noted, those that would change what the switch does are refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from switch.device import DROP_PORT, DeviceSpec, PortSpec
from switch.native.p4runtime.tls import Tls

VERSION = "0.1.0"
DEFAULT_ADDRESS = "127.0.0.1:9559"
"""simple_switch_grpc's port, on loopback only: whoever reaches P4Runtime without TLS can reprogram the switch."""

_IGNORED = {
    "--thrift-port": "the native switch has no Thrift server",
    "--notifications-addr": "the native switch has no nanomsg notifications",
    "--nanolog": "the native switch has no nanomsg log",
    "--debugger-addr": "the native switch has no debugger",
    "--log-level": "only log_msg and failed asserts are logged",
    "--log-file-max-size": "the log is not rotated",
    "--log-file-max-files": "the log is not rotated",
    "--dump-packet-data": "use tcpdump on the interfaces",
    "--max-port-count": "the number of ports is bounded by 9-bit port numbers only",
    "--max-mc-groups": "multicast groups are not bounded",
    "--max-l1-entries": "multicast groups are not bounded",
    "--max-l2-entries": "multicast groups are not bounded",
}
_IGNORED_FLAGS = {
    "--debugger": "the native switch has no debugger",
    "--log-flush": "the log is always flushed",
    "--disable-swap": "a pipeline can always be replaced",
}
_REFUSED = (
    "--packet-in",
    "--restore-state",
    "--dp-grpc-server-addr",
    "--load-modules",
)


class OptionsError(Exception):
    """The command line cannot be followed; the message says why."""


@dataclass(frozen=True)
class Options:
    """What the process is to do."""

    devices: tuple[DeviceSpec, ...] = ()
    devices_file: Path | None = None
    """Read instead of `devices` when given."""
    records: Path | None = None
    sample_ms: float = 50.0
    epoch: int | None = None
    """Monotonic ns that the records count from; None = the start of the process."""
    threads: int = 1
    stdin_lifeline: bool = False
    log_file: Path | None = None
    pcap: Path | None = None
    """Folder for captures of every interface."""
    tls: Tls | None = None
    links: str = "veth"
    """`memory`: ports that name each other as peers are joined within the process."""
    metrics_addr: str | None = None
    """`host:port` of the Prometheus endpoint."""
    use_files: int | None = None
    """Ports are pcap files; seconds to wait before they are processed."""
    text: str | None = None
    """Print this and end (--version, --help)."""
    notes: tuple[str, ...] = field(default=())
    """Options that were accepted and mean nothing here."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(f"{message} (see --help)")


def parse_options(arguments: Sequence[str]) -> Options:
    """Understand the command line; raises OptionsError."""
    parser = _parser()
    given = parser.parse_args([argument for argument in arguments if argument != "--"])
    if given.help:
        return Options(text=parser.format_help().rstrip())
    if given.version:
        return Options(text=VERSION)
    for option in _REFUSED:
        if getattr(given, _attribute(option)):
            raise OptionsError(f"the native switch has no {option}")
    if given.pcap is not None and not given.pcap.is_dir():
        raise OptionsError(f"--pcap: there is no directory {given.pcap}")
    notes = [
        f"{option} is ignored: {why}"
        for option, why in (_IGNORED | _IGNORED_FLAGS).items()
        if getattr(given, _attribute(option))
    ]
    if given.sample_ms <= 0:
        raise OptionsError("--sample-ms must be above 0")
    if not 1 <= given.threads <= 64:
        raise OptionsError("--threads must be 1..64")
    if given.links == "memory" and given.threads != 1:
        raise OptionsError(
            "--links memory needs --threads 1: the switches that it joins share a packet thread"
        )
    common = Options(
        records=given.records,
        sample_ms=given.sample_ms,
        epoch=given.epoch,
        threads=given.threads,
        stdin_lifeline=given.stdin_lifeline,
        log_file=given.log_file,
        pcap=given.pcap,
        tls=_tls(given),
        links=given.links,
        metrics_addr=given.metrics_addr,
        notes=tuple(notes),
    )
    if given.devices is not None:
        if given.program is not None or given.interface:
            raise OptionsError("--devices describes the switches; it takes no program or interface beside it")
        if given.use_files is not None:
            raise OptionsError("--use-files runs one switch, not those of --devices")
        return Options(**{**vars(common), "devices_file": given.devices})
    if given.use_files is not None:
        if given.use_files < 0:
            raise OptionsError("--use-files takes the seconds to wait before the files are processed")
        for option in ("records", "pcap"):
            if getattr(given, option) is not None:
                raise OptionsError(f"--{option} is of no use with --use-files")
    return Options(**{**vars(common), "devices": (_device(given),), "use_files": given.use_files})


def _tls(given: argparse.Namespace) -> Tls | None:
    """As simple_switch_grpc reads these options, but what it ignores with a warning is refused."""
    files = ("cert", "key", "cacert")
    if not given.grpc_server_ssl:
        asked = [f"--grpc-server-{name}" for name in files if getattr(given, f"grpc_server_{name}")]
        asked += ["--grpc-server-with-client-auth"] if given.grpc_server_with_client_auth else []
        if asked:
            raise OptionsError(f"{asked[0]} needs --grpc-server-ssl")
        return None
    for name in ("cert", "key"):
        if getattr(given, f"grpc_server_{name}") is None:
            raise OptionsError(f"--grpc-server-ssl needs --grpc-server-{name}")
    if given.grpc_server_with_client_auth and given.grpc_server_cacert is None:
        raise OptionsError("--grpc-server-with-client-auth needs --grpc-server-cacert")
    clients_ca = given.grpc_server_cacert if given.grpc_server_with_client_auth else None
    return Tls(given.grpc_server_cert, given.grpc_server_key, clients_ca)


def _device(given: argparse.Namespace) -> DeviceSpec:
    if given.program is None and not given.no_p4:
        raise OptionsError("a BMv2 JSON file is needed, or --no-p4, or --devices FILE (see --help)")
    ports = []
    for interface in given.interface:
        number, at, name = interface.partition("@")
        if not at or not number.isdecimal() or not name:
            raise OptionsError(f"-i {interface}: an interface is given as PORT@NAME, as in -i 1@s1-eth1")
        if int(number) >= DROP_PORT and int(number) == given.drop_port:
            raise OptionsError(f"-i {interface}: port {number} is the drop port")
        if int(number) == given.cpu_port or not 0 <= int(number) < 512:
            raise OptionsError(f"-i {interface}: port {number} is the CPU port or not a 9-bit number")
        ports.append(PortSpec(int(number), name, 0))
    if len({port.number for port in ports}) < len(ports):
        raise OptionsError("a port number is given to two interfaces")
    if not 1 <= given.priority_queues <= 8:
        raise OptionsError("--priority-queues must be 1..8")
    program = Path() if given.no_p4 or given.program is None else given.program
    return DeviceSpec(
        name=given.name or f"device-{given.device_id}",
        device_id=given.device_id,
        ports=tuple(ports),
        program_json=program,
        p4info=given.p4info or Path(),
        grpc_address=given.grpc_server_addr,
        cpu_port=given.cpu_port,
        drop_port=given.drop_port,
        priority_queues=given.priority_queues,
        bmv2_compat=given.bmv2_compat,
    )


def _attribute(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m switch.native",
        add_help=False,
        allow_abbrev=False,
        description="Xoff's P4 switch: runs BMv2 JSON, serves P4Runtime.",
        epilog="Options of simple_switch_grpc that mean nothing here are accepted and noted on stderr.",
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="print this")
    add("-v", "--version", action="store_true", help="print the version")
    many = parser.add_argument_group("many switches")
    many.add_argument("--devices", type=Path, metavar="FILE", help="devices.json: the switches to run")
    one = parser.add_argument_group("one switch, as simple_switch_grpc")
    one.add_argument("program", nargs="?", type=Path, metavar="PROGRAM.json", help="BMv2 JSON to start with")
    one.add_argument(
        "-i", "--interface", action="append", default=[], metavar="PORT@NAME", help="attach an interface"
    )
    one.add_argument("--device-id", type=int, default=0, help="P4Runtime device id (default 0)")
    one.add_argument("--name", help="the switch's name in records and messages")
    one.add_argument(
        "--p4info", type=Path, metavar="FILE", help="P4Info text of PROGRAM.json: serves it at once"
    )
    one.add_argument(
        "--use-files",
        type=int,
        metavar="SECONDS",
        help="-i PORT@X means the files X_in.pcap and X_out.pcap, processed in simulated time SECONDS after the start",
    )
    one.add_argument("--no-p4", action="store_true", help="start without a program")
    one.add_argument(
        "--grpc-server-addr", default=DEFAULT_ADDRESS, metavar="HOST:PORT", help=f"default {DEFAULT_ADDRESS}"
    )
    one.add_argument(
        "--cpu-port", type=int, default=510, help="port of packet-in and packet-out (default 510)"
    )
    one.add_argument("--drop-port", type=int, default=DROP_PORT, help="port that drops (default 511)")
    one.add_argument(
        "--bmv2-compat", action="store_true",
        help="as simple_switch where a program could depend on it: re-entering packets have ingress timestamp 0, "
        "a queue holds 64 packets",
    )  # fmt: skip
    one.add_argument("--priority-queues", type=int, default=1, help="queues of each port, 1..8 (default 1)")
    run = parser.add_argument_group("running")
    run.add_argument("--records", type=Path, metavar="FILE", help="append records (JSON Lines) here")
    run.add_argument("--sample-ms", type=float, default=50.0, help="sampling period (default 50)")
    run.add_argument("--epoch", type=int, metavar="NS", help="CLOCK_MONOTONIC time that records count from")
    run.add_argument(
        "--threads", type=int, default=1, help="packet threads that share the switches (default 1)"
    )
    run.add_argument(
        "--metrics-addr", metavar="HOST:PORT", help="serve Prometheus metrics at http://HOST:PORT/metrics"
    )
    run.add_argument(
        "--links",
        choices=("veth", "memory"),
        default="veth",
        help="memory: links between switches of this process bypass the kernel (tcpdump does not see them)",
    )
    run.add_argument("--stdin-lifeline", action="store_true", help="end when stdin closes")
    run.add_argument(
        "--pcap",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="DIR",
        help="write NAME_in.pcap and NAME_out.pcap of every interface there (default: here)",
    )
    run.add_argument("--log-console", action="store_true", help="log to stderr (always the case)")
    run.add_argument("--log-file", type=Path, metavar="FILE", help="log there instead")
    tls = parser.add_argument_group("TLS, for the gRPC servers of every switch; files in PEM form")
    tls.add_argument("--grpc-server-ssl", action="store_true", help="serve TLS instead of plain text")
    tls.add_argument("--grpc-server-cert", type=Path, metavar="FILE", help="the server's certificate chain")
    tls.add_argument("--grpc-server-key", type=Path, metavar="FILE", help="its private key")
    tls.add_argument(
        "--grpc-server-cacert", type=Path, metavar="FILE", help="authority of the clients' certificates"
    )
    tls.add_argument(
        "--grpc-server-with-client-auth",
        action="store_true",
        help="serve clients with a certificate of it only",
    )
    hidden = argparse.SUPPRESS
    for option in _IGNORED:
        names = ["-L", option] if option == "--log-level" else [option]
        add(*names, help=hidden)
    for option in _REFUSED:
        add(option, help=hidden)
    for option in _IGNORED_FLAGS:
        add(option, action="store_true", help=hidden)
    return parser
