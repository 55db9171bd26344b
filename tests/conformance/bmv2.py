"""Run an STF script on BMv2's simple_switch, with pcap files for ports."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.conformance.stf import Add, Command, Packet, Script, SetDefault, StfError, key_position, resolve

SETTLE = 1.0
"""Seconds without a new frame after which the switch is done."""
MAGIC = 0xA1B2C3D4


def run(document: dict[str, Any], script: Script, number: int, binaries: Path) -> dict[int, list[bytes]]:
    """Frames that come out of each port. `number` must be unique among concurrent runs. Raises StfError."""
    with tempfile.TemporaryDirectory(prefix="xoff-stf-") as folder:
        return _run(document, script, number, binaries, Path(folder))


def _run(
    document: dict[str, Any], script: Script, number: int, binaries: Path, folder: Path
) -> dict[int, list[bytes]]:
    (folder / "program.json").write_text(json.dumps(document))
    commands = _commands(document, script)
    ports = sorted(script.ports())
    frames: dict[int, list[tuple[float, bytes]]] = {port: [] for port in ports}
    when = 0.0
    for step in script.steps:
        if isinstance(step, Packet):
            frames[step.port].append((when, step.data))
            when += 0.05
    for port in ports:
        _write(folder / f"p{port}_in.pcap", frames[port])
    wait = 4 if commands else 1
    arguments: list[str] = [
        str(binaries / "simple_switch"),
        "--use-files",
        str(wait),
        "--thrift-port",
        str(21000 + number),
    ]
    arguments += ["--device-id", str(number), "--log-file", "log", "-L", "warn"]
    for port in ports:
        arguments += ["-i", f"{port}@p{port}"]
    notifications = Path(f"/tmp/bmv2-{number}-notifications.ipc")
    notifications.unlink(missing_ok=True)
    with (folder / "stdout").open("w") as out:
        switch = subprocess.Popen([*arguments, "program.json"], cwd=folder, stdout=out, stderr=out)
        try:
            if commands:
                _control(commands, 21000 + number, binaries, switch)
            _settle(folder, ports, wait + when, switch)
        finally:
            switch.terminate()
            code = switch.wait(10)
            notifications.unlink(missing_ok=True)
    if code not in (0, -15):
        text = (folder / "stdout").read_text()
        raise StfError(f"simple_switch ended with {code}: {' '.join(text.split())[-300:]}")
    return {port: _read(folder / f"p{port}_out.pcap") for port in ports}


def _settle(folder: Path, ports: list[int], earliest: float, switch: subprocess.Popen[bytes]) -> None:
    begin = time.monotonic()
    last, quiet = -1, begin
    while time.monotonic() - begin < earliest + 20:
        if switch.poll() is not None:
            return
        sizes = sum(f.stat().st_size for p in ports if (f := folder / f"p{p}_out.pcap").exists())
        now = time.monotonic()
        if sizes != last:
            last, quiet = sizes, now
        elif now - begin > earliest + SETTLE and now - quiet > SETTLE:
            return
        time.sleep(0.05)


def _control(commands: list[str], port: int, binaries: Path, switch: subprocess.Popen[bytes]) -> None:
    text = "\n".join(commands) + "\n"
    command = [str(binaries / "simple_switch_CLI"), "--thrift-port", str(port)]
    for _ in range(50):
        if switch.poll() is not None:
            raise StfError("simple_switch ended before it took commands")
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        if "Could not connect" not in done.stdout + done.stderr:
            break
        time.sleep(0.05)
    for word in ("Error", "Invalid"):
        if word in done.stdout:
            raise StfError(f"simple_switch_CLI: {' '.join(done.stdout.split())[-300:]}")


def _commands(document: dict[str, Any], script: Script) -> list[str]:
    tables = {t["name"]: t for p in document["pipelines"] for t in p["tables"]}
    result: list[str] = []
    for step in script.steps:
        if isinstance(step, Add):
            table = tables[resolve(step.table, list(tables), "table")]
            action = resolve(step.action, table["actions"], "action")
            names = [key["name"] for key in table["key"]]
            given = {key_position(name, names): value for name, value in step.keys}
            keys = [_key(document, key, given.get(i)) for i, key in enumerate(table["key"])]
            values = _values(document, action, step.args)
            ternary = table["match_type"] in ("ternary", "range")
            tail = [] if not ternary else [str(10000 - (step.priority or 0))]
            result.append(" ".join(["table_add", table["name"], action, *keys, "=>", *values, *tail]))
        elif isinstance(step, SetDefault):
            table = tables[resolve(step.table, list(tables), "table")]
            action = resolve(step.action, table["actions"], "action")
            result.append(
                " ".join(["table_set_default", table["name"], action, *_values(document, action, step.args)])
            )
        elif isinstance(step, Command) and step.word not in ("check_counter",):
            result.append(" ".join([step.word, *step.args]))
    return result


def _bits(document: dict[str, Any], key: dict[str, Any]) -> int:
    """Width of a key field."""
    header, name = key["target"]
    kind = next(h["header_type"] for h in document["headers"] if h["name"] == header)
    fields = next(t["fields"] for t in document["header_types"] if t["name"] == kind)
    return 1 if name == "$valid$" else int(next(f[1] for f in fields if f[0] == name))


def _key(document: dict[str, Any], key: dict[str, Any], value: Any) -> str:
    kind = key["match_type"]
    if kind == "exact":
        return "0" if value is None else str(value.value)
    if kind == "lpm":
        if value is None:
            return "0/0"
        if value.prefix is not None:
            return f"{value.value}/{value.prefix}"
        if value.mask is None:
            return f"{value.value}/{_bits(document, key)}"
        return f"{value.value}/{value.mask.bit_count()}"
    if kind == "ternary":
        if value is None:
            return "0&&&0"
        mask = value.mask if value.mask is not None else (1 << _bits(document, key)) - 1
        return f"{value.value:#x}&&&{mask:#x}"
    raise StfError(f"a key of kind {kind} is not supported in STF")


def _values(document: dict[str, Any], action: str, args: list[tuple[str, Any]]) -> list[str]:
    found = next(a for a in document["actions"] if a["name"] == action)
    names = [p["name"] for p in found["runtime_data"]]
    given = {name: str(value.value) for name, value in args}
    try:
        return [given[name] for name in names]
    except KeyError as missing:
        raise StfError(f"action {action} needs a value for {missing}") from None


def _write(path: Path, frames: list[tuple[float, bytes]]) -> None:
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", MAGIC, 2, 4, 0, 0, 65535, 1))
        for when, data in frames:
            out.write(struct.pack("<IIII", int(when), int(when % 1 * 1e6), len(data), len(data)) + data)


def _read(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.exists() else b""
    frames: list[bytes] = []
    offset = 24
    while offset + 16 <= len(data):
        length = struct.unpack_from("<I", data, offset + 8)[0]
        frames.append(data[offset + 16 : offset + 16 + length])
        offset += 16 + length
    return frames


def available(binaries: Path) -> bool:
    """Whether simple_switch is there."""
    return shutil.which(str(binaries / "simple_switch")) is not None
