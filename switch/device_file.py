"""`devices.json`: the switches of a run as a file, written by the experiment, read by what starts them.

The file is a list of objects with `DeviceSpec`'s field names; paths are as the writer gave them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from switch.device import DeviceSpec, PortSpec, QueueSpec


class DeviceFileError(Exception):
    """The file does not describe switches; the message says where and what would be accepted."""


def write_devices(path: Path, devices: Iterable[DeviceSpec]) -> None:
    """Write `devices.json`."""
    path.write_text(json.dumps([device_to_json(device) for device in devices], indent=1) + "\n")


def read_devices(path: Path) -> tuple[DeviceSpec, ...]:
    """The switches that `write_devices` wrote.

    Raises DeviceFileError with one sentence when the file is missing, is not JSON or breaks a rule
    (unknown or missing field, wrong type, name or device id used twice, port number used twice).
    """
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise DeviceFileError(f"{path} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DeviceFileError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, list) or not data:
        raise DeviceFileError(f"{path} must be a JSON list of at least one device")
    try:
        devices = tuple(device_from_json(item, f"device {index}") for index, item in enumerate(data))
        _check_unique("name", [device.name for device in devices])
        _check_unique("device id", [device.device_id for device in devices])
        _check_peers(devices)
    except DeviceFileError as error:
        raise DeviceFileError(f"{path}: {error}") from error
    return devices


def device_to_json(device: DeviceSpec) -> dict[str, Any]:
    """Plain JSON data; `device_from_json` is its inverse."""
    data = asdict(device)
    data["program_json"] = str(device.program_json)
    data["p4info"] = str(device.p4info)
    return data


def device_from_json(data: object, where: str = "device") -> DeviceSpec:
    """The device that `device_to_json` wrote; raises DeviceFileError."""
    values = _checked(data, DeviceSpec, where)
    where = f"device {values['name']!r}"
    ports = values["ports"]
    if not isinstance(ports, (list, tuple)):
        raise DeviceFileError(f"{where}: ports must be a list")
    specs = tuple(
        PortSpec(**_checked(port, PortSpec, f"{where}, port {index}")) for index, port in enumerate(ports)
    )
    for spec in specs:
        if not 0 <= spec.number < 511:
            raise DeviceFileError(f"{where}: port number {spec.number} is not in 0..510")
        if spec.rate_bps < 0 or spec.delay_ns < 0:
            raise DeviceFileError(f"{where}: port {spec.number} has a negative rate or delay")
    _check_unique(f"{where}: port number", [spec.number for spec in specs])
    _check_unique(f"{where}: interface", [spec.interface for spec in specs if spec.interface is not None])
    queue = QueueSpec(**_checked(values.get("queue", {}), QueueSpec, f"{where}, queue"))
    device = DeviceSpec(
        **{
            **values,
            "ports": specs,
            "queue": queue,
            "program_json": Path(values["program_json"]),
            "p4info": Path(values["p4info"]),
        }
    )
    if device.device_id < 1:
        raise DeviceFileError(f"{where}: device_id must be at least 1")
    if not 1 <= device.priority_queues <= 8:
        raise DeviceFileError(f"{where}: priority_queues must be 1..8")
    return device


_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "str | None": (str, type(None)),
    "Path": (str,),
}


def _checked(data: object, cls: type, where: str) -> dict[str, Any]:
    """`data` as keyword arguments for `cls`, its scalars type-checked."""
    if not isinstance(data, dict):
        raise DeviceFileError(f"{where} must be a JSON object")
    known = {field.name: field for field in fields(cls)}
    for name in data:
        if name not in known:
            raise DeviceFileError(f"{where}: unknown field {name!r}; known are {', '.join(known)}")
    for name, field in known.items():
        if name not in data:
            if field.default is MISSING and field.default_factory is MISSING:
                raise DeviceFileError(f"{where}: field {name!r} is missing")
            continue
        accepted = _TYPES.get(str(field.type))
        value = data[name]
        if accepted is not None and (
            not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted)
        ):
            raise DeviceFileError(f"{where}: {name} must be {field.type}, not {json.dumps(value)}")
    return data


def _check_peers(devices: Iterable[DeviceSpec]) -> None:
    """Each peer is a port of the file that names this one as its own peer."""
    peers = {f"{device.name}:{port.number}": port.peer for device in devices for port in device.ports}
    for end, peer in peers.items():
        if peer is not None and peers.get(peer) != end:
            back = "there is no such port" if peer not in peers else f"whose peer is {peers[peer]}"
            raise DeviceFileError(f"port {end} has the peer {peer}, {back}")


def _check_unique(what: str, values: Iterable[object]) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise DeviceFileError(f"{what} {value!r} is used twice")
        seen.add(value)
