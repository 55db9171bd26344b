"""Forwarding pipeline configurations: from a client's bytes to a program that the engine can run."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import Info
from switch.native.program import Program, ProgramError

_KEPT = 16
"""Parsed programs kept for the next device that asks for the same."""


@dataclass(frozen=True)
class Config:
    """A configuration that was found good."""

    message: p4r.ForwardingPipelineConfig
    info: Info
    program: Program
    digest: bytes
    """Equal for equal programs (JSON and P4Info), whatever their cookies."""
    widths: dict[str, int]
    """Bits of each controller-header field in the program, by `packet_in.NAME` and `packet_out.NAME`."""


_parsed: OrderedDict[bytes, tuple[Info, Program, dict[str, int]]] = OrderedDict()
_parsed_lock = Lock()


def read_config(message: p4r.ForwardingPipelineConfig) -> Config:
    """Check a configuration. May take a while for a large program: call it beside the event loop.

    Raises P4RuntimeError(INVALID_ARGUMENT) when it holds no BMv2 JSON, no P4Info, or they contradict each other.
    """
    if not message.p4_device_config:
        raise P4RuntimeError(
            INVALID_ARGUMENT, "p4_device_config is empty; it must hold the program's BMv2 JSON"
        )
    if not message.HasField("p4info"):
        raise P4RuntimeError(INVALID_ARGUMENT, "the configuration has no p4info")
    document = _document(message.p4_device_config)
    hasher = hashlib.sha256(document)
    hasher.update(message.p4info.SerializeToString(deterministic=True))
    digest = hasher.digest()
    with _parsed_lock:
        found = _parsed.get(digest)
        if found is None:
            found = _parse(document, message.p4info)
            _parsed[digest] = found
            while len(_parsed) > _KEPT:
                _parsed.popitem(last=False)
    kept = p4r.ForwardingPipelineConfig()
    kept.CopyFrom(message)
    return Config(kept, found[0], found[1], digest, found[2])


def _parse(document: bytes, p4info: p4i.P4Info) -> tuple[Info, Program, dict[str, int]]:
    info = Info(p4info)
    try:
        text = document.decode()
        program = Program.from_text(text, text_format.MessageToString(p4info))
    except UnicodeDecodeError as error:
        raise P4RuntimeError(
            INVALID_ARGUMENT, "p4_device_config is neither BMv2 JSON nor UTF-8 text"
        ) from error
    except ProgramError as error:
        raise P4RuntimeError(INVALID_ARGUMENT, f"p4_device_config: {error}") from error
    _reconcile(info, program)
    return info, program, _header_widths(json.loads(text), info)


def _reconcile(info: Info, program: Program) -> None:
    """Check that P4Info and JSON describe the same program; forget objects that the compiler optimised away.

    Raises P4RuntimeError(INVALID_ARGUMENT).
    """
    for entities, present in (
        (info.profiles, program.profiles),
        (info.counters, program.counters),
        (info.meters, program.meters),
        (info.registers, program.registers),
        (info.value_sets, program.value_sets),
    ):
        for entity_id, entity in list(entities.items()):
            if entity.preamble.name not in present:
                del entities[entity_id]
    for table_id, table in list(info.tables.items()):
        known = program.tables.get(table.name)
        if known is None:
            del info.tables[table_id]
            continue
        if len(known.key) != len(table.fields):
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"table {table.name} has {len(known.key)} key fields in the JSON and {len(table.fields)} in P4Info",
            )
        actions = {action.name: action for action in known.actions}
        for ref in table.actions.values():
            action = actions.get(ref.action.name)
            if action is None or len(action.params) != len(ref.action.params):
                raise P4RuntimeError(
                    INVALID_ARGUMENT,
                    f"action {ref.action.name} of table {table.name} differs between the JSON and P4Info",
                )


def _document(data: bytes) -> bytes:
    """The JSON text, also out of the P4DeviceConfig message that older clients wrap it in."""
    if data.lstrip()[:1] == b"{":
        return data
    inner = _length_delimited(data, 3)
    return data if inner is None else inner


def _length_delimited(data: bytes, wanted: int) -> bytes | None:
    """The last length-delimited field number `wanted` of a serialised message, None when it is not one."""
    position, found = 0, None
    try:
        while position < len(data):
            tag, position = _varint(data, position)
            kind = tag & 7
            if kind == 0:
                _, position = _varint(data, position)
            elif kind == 2:
                size, position = _varint(data, position)
                if position + size > len(data):
                    return None
                if tag >> 3 == wanted:
                    found = data[position : position + size]
                position += size
            else:
                return None
    except IndexError:
        return None
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 63:
            return value, position


def _header_widths(document: dict[str, Any], info: Info) -> dict[str, int]:
    """Bits of controller-header fields, from the header type whose fields have the same names.

    P4Info gives a translated type the width of its P4Runtime side, which is not the width in the frame.
    """
    widths: dict[str, int] = {}
    for direction, values in info.packet_metadata.items():
        names = [value.name for value in values]
        for header in document.get("header_types", []):
            fields = header.get("fields", [])
            if names and [field[0] for field in fields] == names:
                widths.update({f"{direction}.{field[0]}": int(field[1]) for field in fields})
                break
    return widths
