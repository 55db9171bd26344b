"""Runs p4c's STF files (packets in, packets out, table entries) against the engine, in virtual time.

The language is described in p4c's `tools/stf`; the semantics (suffix names, priorities turned round, extra bytes allowed
unless `$`) are those of its BMv2 runner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from switch.native.binding import Engine
from switch.native.program import Action, KeyField, Program, Table


class StfFailure(AssertionError):
    """An expectation was not met."""


class StfUnsupported(Exception):
    """The file uses something that this runner does not know."""


@dataclass
class _Expect:
    hexdigits: str | None
    exact: bool


@dataclass
class StfRun:
    """One STF file against one engine."""

    program: Program
    engine: Engine
    now: int = 1_000_000
    handles: dict[str, tuple[str, int]] = field(default_factory=dict)
    expects: dict[int, list[_Expect]] = field(default_factory=dict)
    seen: dict[int, list[bytes]] = field(default_factory=dict)
    groups: list[int] = field(default_factory=list)
    nodes: list[tuple[int, list[int]]] = field(default_factory=list)
    members: dict[int, list[int]] = field(default_factory=dict)

    def run(self, text: str) -> None:
        """Run every line, then compare per port and in order."""
        lines = [re.sub(r"#.*", "", line).strip() for line in text.splitlines()]
        lines = [line for line in lines if line]
        for line in lines:
            word, _, rest = line.partition(" ")
            if word.lower() in ("packet", "expect"):
                number = int(rest.split()[0])
                self.expects.setdefault(number, [])
                self.seen.setdefault(number, [])
        for number in self.expects:
            if number not in (self.engine.cpu_port, self.engine.drop_port):
                self.engine.add_port(number)
        for line in lines:
            word, _, rest = line.partition(" ")
            handler = getattr(self, f"_{word.lower()}", None)
            if handler is None:
                raise StfUnsupported(line)
            handler(rest.strip())
        self._drain()
        for number, wanted in self.expects.items():
            got = self.seen[number]
            if len(got) != len(wanted):
                shown = [frame.hex() for frame in got]
                raise StfFailure(f"port {number}: expected {len(wanted)} packets, saw {len(got)}: {shown}")
            for i, (frame, expect) in enumerate(zip(got, wanted, strict=True)):
                self._compare(number, i, frame, expect)

    @staticmethod
    def _compare(number: int, i: int, frame: bytes, expect: _Expect) -> None:
        if expect.hexdigits is None:
            return
        seen = frame.hex().upper()
        wanted = expect.hexdigits.upper()
        short = len(seen) < len(wanted) or (expect.exact and len(seen) != len(wanted))
        if short or any(w not in ("*", s) for w, s in zip(wanted, seen, strict=False)):
            raise StfFailure(f"port {number}, packet {i}: expected {wanted}, saw {seen}")

    def _drain(self) -> None:
        while True:
            self.now += 1000
            for number, frame in self.engine.poll(self.now):
                if number in self.seen:
                    self.seen[number].append(frame)
            for _, frame in self.engine.take_cpu_frames():
                if self.engine.cpu_port in self.seen:
                    self.seen[self.engine.cpu_port].append(frame)
            deadline = self.engine.next_deadline()
            if deadline is None:
                return
            self.now = max(self.now, deadline)

    # ---- packets ----

    def _packet(self, rest: str) -> None:
        number, _, data = rest.partition(" ")
        self.engine.rx(int(number), bytes.fromhex(data.replace(" ", "")), self.now)
        self._drain()

    def _expect(self, rest: str) -> None:
        number, _, data = rest.partition(" ")
        exact = data.rstrip().endswith("$")
        digits = data.replace("$", "").replace(" ", "")
        self.expects[int(number)].append(_Expect(digits or None, exact))

    def _no_packet(self, rest: str) -> None:
        pass

    _wait = _no_packet
    _remove = _no_packet

    # ---- tables ----

    def _find_table(self, name: str) -> Table:
        name = name.strip('"')
        tables = self.program.tables
        if name in tables:
            return tables[name]
        found = [t for n, t in tables.items() if n.endswith(name)]
        if len(found) != 1:
            raise StfUnsupported(f"table {name}")
        return found[0]

    @staticmethod
    def _find_action(table: Table, name: str) -> Action:
        name = name.strip('"')
        for action in table.actions:
            if action.name == name:
                return action
        found = [a for a in table.actions if a.name.endswith(name)]
        if len(found) != 1:
            raise StfUnsupported(f"action {name}")
        return found[0]

    @staticmethod
    def _number(text: str) -> int:
        return int(text, 0)

    def _call(self, table: Table, text: str) -> tuple[Action, list[int]]:
        match = re.fullmatch(r"([^(]+)\((.*)\)", text.strip())
        if match is None:
            raise StfUnsupported(text)
        action = self._find_action(table, match.group(1).strip())
        given: dict[str, int] = {}
        for pair in filter(None, (p.strip() for p in match.group(2).split(","))):
            name, _, value = pair.partition(":")
            given[name.strip()] = self._number(value)
        return action, [given[name] & ((1 << width) - 1) for name, width in action.params]

    def _key(self, table: Table, pairs: list[str]) -> list[tuple[object, ...]]:
        given: dict[str, str] = {}
        for pair in pairs:
            name, _, value = pair.rpartition(":")
            name = re.sub(r"\$(\d+)", r"[\1]", name.strip('"'))
            given[name] = value
        key = []
        for f in table.key:
            value = None
            names = {f.name, f"{f.name}$", f"{f.header}.{f.field}".rstrip(".")}
            if f.kind == "valid" or f.field == "$valid$":
                names |= {f.header, f"{f.header}.$valid$", f"{f.header}.valid", f"{f.header}.isValid()"}
            for name, text in given.items():
                if name in names or any(n.endswith("." + name) or name.endswith("." + n) for n in names):
                    value = text
            key.append(self._element(f, value))
        return key

    @staticmethod
    def _element(f: KeyField, text: str | None) -> tuple[object, ...]:
        full = (1 << f.width) - 1
        if f.kind in ("exact", "valid"):
            return (f.kind, int(text, 0) if text else 0)
        if text is None:
            return ("lpm", 0, 0) if f.kind == "lpm" else ("ternary", 0, 0)
        if f.kind == "lpm":
            if "/" in text:
                number, _, prefix = text.partition("/")
                return ("lpm", int(number, 0), int(prefix))
            digits = text[2:] if text[:2] in ("0x", "0b") else ""
            stars = len(digits) - len(digits.rstrip("*"))
            bits = {"0x": 4, "0b": 1}.get(text[:2], 0) * stars
            number = int(text.replace("*", "0"), 0)
            return ("lpm", number, f.width - bits)
        if f.kind == "ternary":
            if "&&&" in text:
                number, _, mask = text.partition("&&&")
                return ("ternary", int(number, 0), int(mask, 0))
            per_digit = {"0x": 4, "0b": 1}.get(text[:2])
            if per_digit is None:
                return ("ternary", int(text, 0), full)
            mask = 0
            for digit in text[2:]:
                mask = mask << per_digit | (0 if digit == "*" else (1 << per_digit) - 1)
            if "*" not in text:
                mask = full
            return ("ternary", int(text.replace("*", "0"), 0) & full, mask & full)
        raise StfUnsupported(f"{f.kind} key")

    def _add(self, rest: str) -> None:
        handle = None
        if match := re.search(r"=\s*\$?(\w+)\s*$", rest):
            handle = match.group(1)
            rest = rest[: match.start()].strip()
        open_paren = rest.index("(")
        head, action_name = rest[:open_paren].rsplit(None, 1)
        words = head.split()
        table = self._find_table(words[0])
        words = words[1:]
        priority = 0
        if words and re.fullmatch(r"\d+", words[0]):
            priority = int(words.pop(0))
        action, args = self._call(table, action_name + rest[open_paren:])
        number = self.engine.table_add(
            table.name, self._key(table, words), action.name, args, priority if table.ranked else 0
        )
        if handle:
            self.handles[handle] = (table.name, number)

    def _setdefault(self, rest: str) -> None:
        name, _, call = rest.partition(" ")
        table = self._find_table(name)
        action, args = self._call(table, call)
        self.engine.table_default(table.name, action.name, args)

    def _check_counter(self, rest: str) -> None:
        match = re.fullmatch(
            r"(\S+?)\(?\s*(\$?\w+)?\s*\)?\s*(?:(packets|bytes)?\s*(==|!=|<=|<|>=|>)\s*(\d+))?", rest
        )
        if match is None:
            raise StfUnsupported(rest)
        name, index, kind, relation, number = match.groups()
        if index and index.startswith("$"):
            table, handle = self.handles[index[1:]]
            pair = self.engine.entry_counter(table, handle)
        else:
            counters = [c for c in self.program.counters if c.endswith(name)]
            if not counters:
                raise StfUnsupported(f"counter {name}")
            pair = self.engine.counter_read(counters[0], int(index or 0))
        if relation:
            value = pair[1 if kind == "bytes" else 0]
            if not eval(f"{value} {relation} {number}"):  # numbers and an operator from the pattern above
                raise StfFailure(f"counter {name}({index}): {value} is not {relation} {number}")

    # ---- replication ----

    def _mirroring_add(self, rest: str) -> None:
        session, port = rest.split()
        self.engine.clone_session_set(int(session), int(port))

    def _mirroring_add_mc(self, rest: str) -> None:
        session, group = rest.split()
        self.engine.clone_session_set(int(session), [], group=int(group))

    def _mc_mgrp_create(self, rest: str) -> None:
        self.members[int(rest)] = []
        self.engine.multicast_group_set(int(rest), [])

    def _mc_node_create(self, rest: str) -> None:
        rid, *ports = (int(w) for w in rest.split())
        self.nodes.append((rid, ports))

    def _mc_node_associate(self, rest: str) -> None:
        group, node = (int(w) for w in rest.split())
        self.members[group].append(node)
        replicas = [
            (port, self.nodes[n][0]) for n in self.members[group] for port in sorted(self.nodes[n][1])
        ]
        self.engine.multicast_group_set(group, replicas)
