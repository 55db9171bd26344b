"""Run an STF script on the native switch, in this process and on a clock of its own."""

from __future__ import annotations

import json
import operator
import re
from typing import Any

from switch.native.binding import Engine
from switch.native.program import Program
from tests.conformance.stf import (
    Add,
    Command,
    Number,
    Packet,
    Script,
    SetDefault,
    StfError,
    key_position,
    resolve,
)

SECOND = 1_000_000_000
LAPS = 100_000
"""Polls after which a packet that never leaves (an endless recirculation) is given up."""

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def run(document: dict[str, Any], script: Script, number: int) -> dict[int, list[bytes]]:
    """Frames that come out of each port. Raises StfError, EngineError, ProgramError."""
    with _Run(document, script) as switch:
        return switch.steps()


class _Run:
    def __init__(self, document: dict[str, Any], script: Script) -> None:
        self.document = document
        self.script = script
        self.tables = {t["name"]: t for p in document["pipelines"] for t in p["tables"]}
        self.actions = {a["id"]: a for a in document["actions"]}
        self.engine = Engine(Program.from_text(json.dumps(document)))
        self.now = SECOND
        self.out: dict[int, list[bytes]] = {}
        self.nodes: list[tuple[int, list[int]]] = []
        self.groups: dict[int, list[tuple[int, int]]] = {}
        for port in sorted(script.ports()):
            self.engine.add_port(port)
            self.out[port] = []

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def steps(self) -> dict[int, list[bytes]]:
        """Do everything, in order."""
        for step in self.script.steps:
            if isinstance(step, Packet):
                self._packet(step)
            elif isinstance(step, Add):
                self._add(step)
            elif isinstance(step, SetDefault):
                table = self._table(step.table)
                action = self._action(table, step.action)
                self.engine.table_default(table["name"], action["name"], _values(action, step.args))
            elif isinstance(step, Command):
                self._command(step)
        return self.out

    def _packet(self, step: Packet) -> None:
        self.now += SECOND // 100
        self.engine.rx(step.port, step.data, self.now)
        for _ in range(LAPS):
            for port, frame in self.engine.poll(self.now):
                if port in self.out:
                    self.out[port].append(frame)
            after = self.engine.next_deadline()
            if after is None:
                return
            self.now = max(self.now, after)
        raise StfError("the switch is never done with this packet")

    def _table(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.tables[resolve(name, list(self.tables), "table")]
        return found

    def _action(self, table: dict[str, Any], name: str) -> dict[str, Any]:
        full = resolve(name, table["actions"], "action")
        found: dict[str, Any] = self.actions[table["action_ids"][table["actions"].index(full)]]
        return found

    def _add(self, step: Add) -> None:
        table = self._table(step.table)
        action = self._action(table, step.action)
        names = [key["name"] for key in table["key"]]
        given = {key_position(name, names): value for name, value in step.keys}
        key = [self._key(k, given.get(i)) for i, k in enumerate(table["key"])]
        ranked = table["match_type"] in ("ternary", "range")
        priority = step.priority or 0
        self.engine.table_add(
            table["name"], key, action["name"], _values(action, step.args), priority + 1 if ranked else 0
        )

    def _key(self, key: dict[str, Any], value: Number | None) -> tuple[Any, ...]:
        kind = key["match_type"]
        width = self._width(key)
        if kind == "exact":
            return ("exact", 0 if value is None else value.value)
        if kind == "lpm":
            if value is None:
                return ("lpm", 0, 0)
            mask = value.mask
            length = value.prefix
            if length is None:
                length = width if mask is None else mask.bit_count()
            return ("lpm", value.value >> (width - length) << (width - length), length)
        if kind == "ternary":
            if value is None:
                return ("ternary", 0, 0)
            mask = value.mask if value.mask is not None else (1 << width) - 1
            return ("ternary", value.value & mask, mask)
        raise StfError(f"a key of kind {kind} is not supported in STF")

    def _width(self, key: dict[str, Any]) -> int:
        header, name = key["target"]
        kind = next(h["header_type"] for h in self.document["headers"] if h["name"] == header)
        fields = next(t["fields"] for t in self.document["header_types"] if t["name"] == kind)
        return 1 if name == "$valid$" else int(next(f[1] for f in fields if f[0] == name))

    def _command(self, step: Command) -> None:
        word, args = step.word, step.args
        if word == "mirroring_add":
            self.engine.clone_session_set(int(args[0]), int(args[1]))
        elif word == "mc_mgrp_create":
            self.groups[int(args[0])] = []
            self.engine.multicast_group_set(int(args[0]), [])
        elif word == "mc_node_create":
            self.nodes.append((int(args[0]), [int(port) for port in args[1:]]))
        elif word == "mc_node_associate":
            group = int(args[0])
            rid, ports = self.nodes[int(args[1])]
            self.groups[group] += [(port, rid) for port in ports]
            self.engine.multicast_group_set(group, self.groups[group])
        elif word == "register_write":
            self.engine.register_write(self._array("register_arrays", args[0]), int(args[1]), int(args[2], 0))
        elif word == "register_reset":
            self.engine.register_reset(self._array("register_arrays", args[0]))
        elif word == "check_counter":
            self._check_counter(" ".join(args))
        else:
            raise StfError(f"command {word} is not supported")

    def _array(self, kind: str, name: str) -> str:
        return resolve(name, [item["name"] for item in self.document[kind]], kind)

    def _check_counter(self, text: str) -> None:
        found = re.match(
            r"([\w.$]+)\s*(?:\(\s*(\$?\w+)\s*\))?\s*(?:(packets|bytes)\s*([=!<>]+)\s*(\d+))?", text
        )
        if found is None:
            raise StfError(f"check_counter {text}: not understood")
        name, index, unit, relation, wanted = found.groups()
        direct = [c["name"] for c in self.document["counter_arrays"] if c["is_direct"]]
        full = self._array("counter_arrays", name)
        if full in direct or (index or "0").startswith("$"):
            return  # counters of entries are named by handles that STF keeps in variables
        packets, count = self.engine.counter_read(full, int(index or 0))
        got = packets if unit != "bytes" else count
        if wanted is not None and not COMPARE[relation](got, int(wanted)):
            raise StfError(f"counter {full}({index}): {unit} {got}, expected {relation} {wanted}")


def _values(action: dict[str, Any], args: list[tuple[str, Number]]) -> list[int]:
    given = {name: value.value for name, value in args}
    try:
        return [given[p["name"]] for p in action["runtime_data"]]
    except KeyError as missing:
        raise StfError(f"action {action['name']} needs a value for {missing}") from None
