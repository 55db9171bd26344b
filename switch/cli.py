"""The switch's command line: settings and statistics of a running native switch, and simple_switch_CLI's commands.

    xoff-switch-cli HOST:PORT queue set port=1 class=3 weight=4 rate=2G
    python -m switch.cli --grpc HOST:PORT < commands.txt

Without words it reads commands from stdin, one a line, `#` begins a comment; a failing one is told and the next one
tried, as simple_switch_CLI does. With words it executes them and exits with 1 if they failed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from switch.control_client import ControlClient, ControlRefusedError

PROMPT = "RuntimeCmd: "
"""simple_switch_CLI's, which scripts look for."""

HELP = """\
describe                                        what this switch is
ports [PORT]                                    state and counters
port set PORT [rate=BPS] [delay=TIME] [up|down] [loss=PROBABILITY] [every=N] [direction=tx|rx|both] [seed=N]
queues [PORT [CLASS]]                           settings and state
queue set [port=N] [class=N] [weight=N] [rate=BPS] [burst=BYTES] [pps=N] [limit=BYTES] [packets=N]
          [alpha=X] [guaranteed=BYTES] [headroom=BYTES]
buffer                                          the shared buffer
buffer set BYTES                                its size; 0 = none
drops                                           by reason
tables                                          entries, hits, misses
watermarks reset [PORT]
and the commands of simple_switch_CLI (`help` on a running switch lists them).
Numbers take k, M, G, T (powers of 1000) or Ki, Mi, Gi (of 1024); times ns, us, ms, s.
"""

_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_QUEUE_WORDS = {
    "weight": "weight",
    "rate": "rate_bps",
    "burst": "burst_bytes",
    "pps": "rate_pps",
    "limit": "limit_bytes",
    "packets": "limit_packets",
    "alpha": "alpha",
    "guaranteed": "guaranteed_bytes",
    "headroom": "headroom_bytes",
}


class UsageError(Exception):
    """The words cannot be followed; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="xoff-switch-cli",
        description="Settings and statistics of a running native switch.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--grpc", metavar="HOST:PORT", help="the switch's P4Runtime address")
    parser.add_argument(
        "--ca", type=Path, metavar="FILE", help="certificate that vouches for the switch (TLS)"
    )
    parser.add_argument("--cert", type=Path, metavar="FILE", help="this client's certificate")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its private key")
    parser.add_argument("--json", action="store_true", help="print answers as JSON")
    parser.add_argument("words", nargs="*", metavar="HOST:PORT and a command")
    given = parser.parse_intermixed_args(arguments)
    words: list[str] = given.words
    address = given.grpc
    if address is None:
        if not words or ":" not in words[0]:
            parser.error("the switch's HOST:PORT is needed")
        address, *words = words
    try:
        client = ControlClient(address, ca=given.ca, certificate=given.cert, key=given.key)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    with client:
        if words:
            return 0 if _execute(client, " ".join(words), given.json) else 1
        return _script(client, sys.stdin, given.json)


def _script(client: ControlClient, lines: Iterable[str], as_json: bool) -> int:
    try:
        client.call("Describe")
    except ControlRefusedError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(PROMPT, end="", flush=True)
    for line in lines:
        text = line.split("#", 1)[0].strip()
        if text in ("EOF", "exit", "quit"):
            break
        if text:
            _execute(client, text, as_json)
        print(PROMPT, end="", flush=True)
    print()
    return 0


def _execute(client: ControlClient, line: str, as_json: bool) -> bool:
    """Execute and print one command; whether it succeeded."""
    try:
        call = own_call(line.split())
        if call is None:
            printed, ok = client.command(line)
            for text in printed:
                print(text)
            return ok
        method, request = call
        answer = client.call(method, **request)
    except (UsageError, ControlRefusedError) as error:
        print(f"Error: {error}")
        return False
    print(json.dumps(answer, indent=1) if as_json else "\n".join(shown(answer)))
    return True


def own_call(words: list[str]) -> tuple[str, dict[str, Any]] | None:
    """The method and request of one of this program's own commands; None for those of simple_switch_CLI.

    Raises UsageError.
    """
    match words:
        case ["describe"]:
            return "Describe", {}
        case ["ports", *port] if len(port) < 2:
            return "GetPorts", _numbers(("port",), port)
        case ["port", "set", port, *changes] if changes:
            return "SetPort", {"port": _whole(port), **_port_changes(changes)}
        case ["queues", *where] if len(where) < 3:
            return "GetQueues", _numbers(("port", "class"), where)
        case ["queue", "set", *changes] if changes:
            return "SetQueue", _queue_changes(changes)
        case ["buffer"]:
            return "GetBuffer", {}
        case ["buffer", "set", size]:
            return "SetBuffer", {"size": _whole(size)}
        case ["drops"]:
            return "GetDrops", {}
        case ["tables"]:
            return "GetTables", {}
        case ["watermarks", "reset", *port] if len(port) < 2:
            return "ResetWatermarks", _numbers(("port",), port)
        case [("ports" | "port" | "queues" | "queue" | "buffer" | "drops" | "tables" | "watermarks"), *_]:
            usage = [text for text in HELP.splitlines() if text.startswith(words[0].rstrip("s"))]
            raise UsageError("usage:\n" + "\n".join(usage))
    return None


def _port_changes(words: list[str]) -> dict[str, Any]:
    request: dict[str, Any] = {}
    loss: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if word in ("up", "down"):
            request["up"] = word == "up"
        elif not equals:
            raise UsageError(f"{word!r} is not NAME=VALUE, up or down")
        elif name == "rate":
            request["rate_bps"] = _whole(text)
        elif name == "delay":
            request["delay_ns"] = _time(text)
        elif name == "loss":
            loss["probability"] = _real(text)
        elif name in ("every", "seed"):
            loss[name] = _whole(text)
        elif name == "direction":
            loss["direction"] = text
        else:
            raise UsageError(
                f"a port has no {name}; it has rate, delay, loss, every, direction, seed, up, down"
            )
    return {**request, "loss": loss} if loss else request


def _queue_changes(words: list[str]) -> dict[str, Any]:
    request: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name in ("port", "class"):
            request[name] = _whole(text)
        elif name == "alpha":
            request[name] = _real(text)
        elif name in _QUEUE_WORDS:
            request[_QUEUE_WORDS[name]] = _whole(text)
        else:
            raise UsageError(f"a queue has no {name!r}; it has port, class, {', '.join(_QUEUE_WORDS)}")
    return request


def _numbers(names: tuple[str, ...], words: list[str]) -> dict[str, Any]:
    return {name: _whole(word) for name, word in zip(names, words, strict=False)}


def _whole(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]|[KMG]i)?", text)
    if found is None:
        raise UsageError(f"{text!r} is not a number such as 9216, 10G or 64Ki")
    digits, scale = found[1], _SCALES[found[2] or ""]
    whole, _, fraction = digits.partition(".")
    part, unit = int(fraction or "0") * scale, int("1" + "0" * len(fraction))
    if part % unit:
        raise UsageError(f"{text} is not a whole number")
    return int(whole) * scale + part // unit


def _time(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ns|us|ms|s)", text)
    if found is None:
        raise UsageError(f"{text!r} is not a time such as 500ns or 1.5us")
    return round(float(found[1]) * _TIMES[found[2]])


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number") from None


def shown(answer: dict[str, Any]) -> list[str]:
    """An answer for people: a list of objects as a table, anything else as `name: value`."""
    lines: list[str] = []
    for name, value in answer.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines += _table(value)
        elif isinstance(value, dict):
            lines += [f"{name}:", *(f"  {inner}: {_cell(item)}" for inner, item in value.items())]
        else:
            lines.append(f"{name}: {_cell(value)}")
    return lines


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Columns that say nothing (zero, empty in every row) are left out."""
    columns = [
        name for name in rows[0] if name in ("port", "class", "name") or any(row[name] for row in rows)
    ]
    cells = [columns, *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]


def _cell(value: object) -> str:
    if isinstance(value, dict):
        if set(value) == {"packets", "bytes"}:
            return f"{value['packets']} packets, {value['bytes']} bytes"
        return "; ".join(f"{name} {_cell(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "-" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
