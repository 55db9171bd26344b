"""What a traced engine did with a packet, as data and in words: states, headers, tables, actions, fields, fate.

A traced engine (`Engine(…, traced=True)`) is told of one packet at a time; nothing else may drive it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from switch.native import cgen_trace as points
from switch.native.binding import Engine
from switch.native.document import Node
from switch.native.program import Action, Field, Header, Program, Table, join

HORIZON_NS = 10**9
"""How long a packet is followed, ns of the engine's time; a program may recirculate it for ever."""
_MOST_EVENTS = 4096
_NONE = 0xFFFFFFFF
_INSTANCES = {
    0: "normal",
    1: "clone made in ingress",
    2: "clone made in egress",
    4: "recirculated",
    5: "copy of a multicast group",
    6: "resubmitted",
}


@dataclass(frozen=True)
class Change:
    """A field (or, `field` empty, the validity of a header) that got another value."""

    header: str
    field: str
    before: int
    after: int
    text: str
    """As people read it."""


@dataclass(frozen=True)
class Step:
    """One thing the switch did."""

    kind: str
    """packet, ingress, state, parsed, condition, table, statement, fate, queue, egress, headers, sent, cpu, dropped or
    lost."""
    text: str
    depth: int
    """How far the text is indented."""
    changes: tuple[Change, ...] = ()


@dataclass
class Trace:
    """What happened to one packet and its copies."""

    steps: list[Step] = field(default_factory=list)
    sent: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(time in ns, port, frame) of what left; the CPU port's included."""
    drops: dict[str, int] = field(default_factory=dict)
    """Packets by reason."""

    def text(self) -> str:
        """The whole story, a line a step."""
        lines = []
        for step in self.steps:
            lines.append("  " * step.depth + step.text)
            lines += ["  " * (step.depth + 1) + change.text for change in step.changes]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Record:
    kind: int
    a: int
    b: int
    c: int
    time: int
    words: Sequence[int]


def trace_packet(engine: Engine, port: int, frame: bytes, now: int = 0) -> Trace:
    """Send a packet into a port at `now` and follow it until nothing of it is left in the switch.

    `engine` must be traced, run a program and be at rest. Raises ValueError, EngineError.
    """
    if not engine.traced:
        raise ValueError("the engine was not made with traced=True")
    trace = Trace()
    trace.steps.append(Step("packet", f"packet of {len(frame)} bytes on port {port}: {frame.hex()}", 0))
    before = engine.drops()
    _take(engine)
    reader = _Reader(engine)
    engine.rx(port, frame, now)
    trace.steps += reader.steps(_take(engine))
    for _ in range(_MOST_EVENTS):
        deadline = engine.next_deadline()
        if deadline is None or deadline > now + HORIZON_NS:
            break
        left = engine.poll_timed(deadline)
        trace.steps += reader.steps(_take(engine))
        for kind, found in (("sent", left), ("cpu", _cpu(engine))):
            for time, out_port, data in found:
                trace.sent.append((time, out_port, data))
                where = "to the controller" if kind == "cpu" else f"on port {out_port}"
                text = f"sent {where} after {time - now} ns: {len(data)} bytes: {data.hex()}"
                trace.steps.append(Step(kind, text, 0))
    else:
        trace.steps.append(Step("lost", "still in the switch: the trace ends here", 0))
    for reason, (packets, _) in engine.drops().items():
        if packets > before[reason][0]:
            trace.drops[reason] = packets - before[reason][0]
            trace.steps.append(Step("dropped", f"dropped: {reason} ({_REASONS.get(reason, reason)})", 0))
    return trace


_REASONS = {
    "ingress": "the program marked it to be dropped in ingress",
    "egress": "the program marked it to be dropped in egress",
    "queue_bytes": "the queue's byte limit",
    "queue_packets": "the queue's packet limit",
    "buffer": "the shared buffer's dynamic threshold",
    "priority": "its priority is not below the number of queues",
    "no_port": "there is no such port",
    "port_down": "the port is down",
    "rx_no_port": "it came in on a port that does not exist",
    "oversize": "it is too long",
    "no_multicast": "the multicast group has no replicas",
    "no_clone": "there is no such clone session",
    "loop": "it came back too often at one instant",
    "link_loss": "lost on a lossy link",
}


def _cpu(engine: Engine) -> list[tuple[int, int, bytes]]:
    return [(time, engine.cpu_port, data) for time, data in engine.take_cpu_frames()]


def _take(engine: Engine) -> list[_Record]:
    words = engine.take_trace()
    records, at = [], 0
    while at < len(words):
        kind, a, b, c, time, count = words[at : at + 6]
        records.append(_Record(kind, a, b, c, time, words[at + 6 : at + 6 + count]))
        at += 6 + count
    return records


class _Reader:
    """Turns records into steps; knows the program's names."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        program = self._program = engine.program
        self._points = list(points.fields_of(program))
        self._tables = {table.index: table for table in program.tables.values()}
        self._actions = {action.index: action for action in program.actions}
        self._states = _state_names(program)
        self._pipeline = "ingress"
        self._before: Sequence[int] | None = None
        self._open: Step | None = None
        """A parser state whose changes the next record shows."""
        self._parsing = False

    def steps(self, records: Sequence[_Record]) -> Iterator[Step]:
        """The steps of some records, in order."""
        for record in records:
            yield from self._step(record)
            self._before = record.words

    def _step(self, record: _Record) -> Iterator[Step]:
        kind = record.kind
        if self._open is not None:
            step, self._open = self._open, None
            yield Step(step.kind, step.text, step.depth, self._changes(record))
        if kind == points.INGRESS:
            self._pipeline, self._parsing = "ingress", True
            yield Step("ingress", f"ingress ({_INSTANCES.get(record.a, record.a)})", 0)
        elif kind == points.STATE:
            if not self._parsing:
                self._parsing = True
                yield Step("ingress", "the original packet is parsed again for a clone", 0)
                self._before = None
            name = self._states.get(record.a, record.a)
            self._open = Step("state", f"parser state {name} at byte {record.b}", 1)
        elif kind == points.PARSED:
            self._parsing = False
            error = next((n for n, number in self._program.errors.items() if number == record.b), record.b)
            fate = "accepted" if error == "NoError" else f"stopped by error.{error}"
            yield Step("parsed", f"parser {fate}: {record.a} bytes are headers, the rest is payload", 1)
        elif kind == points.CONDITION:
            yield Step("condition", self._condition(record), 1)
        elif kind == points.TABLE:
            yield from self._table(record)
        elif kind == points.STATEMENT:
            action = self._actions[record.a]
            node = action.primitives.items()[record.b]
            changes = self._changes(record)
            text = _source(node) or str(node["op"].value)
            yield Step("statement", text, 2, changes)
        elif kind in (points.INGRESS_END, points.EGRESS_END):
            yield Step("fate", self._fate(record, kind == points.INGRESS_END), 1)
        elif kind == points.EGRESS:
            self._pipeline = "egress"
            if record.a == self._engine.drop_port:
                where = f"refused by the traffic manager: it passes egress for port {record.a}"
            else:
                where = f"taken from queue {record.b} of port {record.a}; {record.c} packets were there when it came"
            yield Step("queue", where, 0)
            instance = self._value(record.words, "standard_metadata", "instance_type")
            yield Step("egress", f"egress ({_INSTANCES.get(instance or 0, instance)})", 0)
        elif kind == points.DEPARSED:
            changes = self._changes(record)
            yield Step("headers", f"{record.a} bytes of headers are put in front of the payload", 1, changes)

    def _condition(self, record: _Record) -> str:
        pipeline = self._program.pipelines[self._pipeline]
        name = list(pipeline.nodes)[record.a]
        for node in pipeline.node.get("conditionals").items():
            if node["name"].value == name:
                name = _source(node) or name
        return f"{name}: {'true' if record.b else 'false'}"

    def _table(self, record: _Record) -> Iterator[Step]:
        table = self._tables[record.a]
        action = self._actions.get(record.c)
        if not table.key and table.name.startswith("tbl_"):
            return  # statements outside of tables, which the compiler has wrapped; they follow one by one
        key = ", ".join(f"{f.name} = {self._shown_key(record.words, f.header, f.field)}" for f in table.key)
        hit = record.b != _NONE
        found = f"hit, entry {record.b}" if hit else "miss" if table.key else "default action"
        called = "no action" if action is None else f"{action.name}({self._arguments(table, record, action)})"
        yield Step("table", f"table {table.name}{f' with {key}' if key else ''}: {found}: {called}", 1)

    def _arguments(self, table: Table, record: _Record, action: Action) -> str:
        if not action.params:
            return ""
        values: Sequence[int] = ()
        if record.b != _NONE:
            entries = self._engine.table_entries(table.name)
            values = next((entry.args for entry in entries if entry.handle == record.b), ())
        else:
            default = self._engine.table_default_get(table.name)
            if default is not None:
                values = default[1]
        if len(values) != len(action.params):
            return "…"  # of a member of an action profile
        return ", ".join(
            f"{name} = {shown(value, width, name)}"
            for value, (name, width) in zip(values, action.params, strict=True)
        )

    def _fate(self, record: _Record, ingress: bool) -> str:
        port, group = record.a & _NONE, record.a >> 32
        session, digest = record.b & _NONE, record.b >> 32
        parts = []
        if session:
            parts.append(f"cloned to session {session & 0x7FFF}")
        if digest:
            parts.append("a digest is sent")
        if ingress and record.c:
            parts.append("resubmitted")
        elif ingress and group:
            parts.append(f"copied to multicast group {group}")
        elif port == self._engine.drop_port:
            parts.append("to be dropped")
        elif ingress:
            parts.append(f"to port {port}")
        elif record.c:
            parts.append("recirculated")
        else:
            parts.append("sent")
        return f"end of {'ingress' if ingress else 'egress'}: {', '.join(parts)}"

    def _changes(self, record: _Record) -> tuple[Change, ...]:
        if self._before is None:
            return ()
        changes = []
        appeared: set[str] = set()
        valid = {p.header.name: record.words[p.index] for p in self._points if p.field is None}
        for point in self._points:
            before = join(list(self._before[point.index : point.index + point.words]))
            after = join(list(record.words[point.index : point.index + point.words]))
            name = point.header.name
            if point.field is None:
                if after and not before:
                    appeared.add(name)
                    changes.append(Change(name, "", 0, 1, f"{name} is valid"))
                elif before and not after:
                    changes.append(Change(name, "", 1, 0, f"{name} is not valid any more"))
            elif not valid.get(name, 1) or point.field.name.startswith("_padding"):
                continue
            elif name in appeared:
                text = f"{name}.{point.field.name} = {_shown(after, point.field, name)}"
                changes.append(Change(name, point.field.name, before, after, text))
            elif before != after:
                old, new = (_shown(value, point.field, name) for value in (before, after))
                changes.append(
                    Change(
                        name, point.field.name, before, after, f"{name}.{point.field.name}: {old} -> {new}"
                    )
                )
        return tuple(changes)

    def _value(self, words: Sequence[int], header: str, name: str) -> int | None:
        header, name = self._program.aliases.get(f"{header}.{name}", (header, name))
        for point in self._points:
            if point.header.name == header and (point.field.name if point.field else "$valid$") == name:
                return join(list(words[point.index : point.index + point.words]))
        return None

    def _shown_key(self, words: Sequence[int], header: str, name: str) -> str:
        found = self._value(words, header, name or "$valid$")
        if found is None:
            return "?"
        width = _width(self._program.headers[header], name)
        return shown(found, width, f"{header}.{name}")


def _width(header: Header, name: str) -> int:
    return next((f.width for f in header.type.fields if f.name == name), 1)


def _shown(value: int, field: Field, header: str) -> str:
    return f"{value} bits" if field.varbit else shown(value, field.width, f"{header}.{field.name}")


def shown(value: int, width: int, name: str = "") -> str:
    """A value as people read it: MAC and IPv4 addresses, small numbers in decimal, others in hexadecimal."""
    if width == 48 and value and any(part in name.lower() for part in ("mac", "addr", "src", "dst")):
        return value.to_bytes(6, "big").hex(":")
    if width == 32 and any(part in name.lower() for part in ("addr", "ip")):
        return ".".join(map(str, value.to_bytes(4, "big")))
    if value < 10:
        return str(value)
    return f"{value} ({value:#x})" if width <= 32 else f"{value:#x}"


def _source(node: Node) -> str:
    """`text [file:line]` of what the compiler made the node from; empty when it does not say."""
    info = node.get("source_info")
    if info.missing or info.get("source_fragment").missing:
        return ""
    place = f"{PurePath(str(info['filename'].value)).name}:{info['line'].value}"
    return f"{info['source_fragment'].value} [{place}]"


def _state_names(program: Program) -> dict[int, str]:
    if program.parser is None:
        return {}
    return {i: str(state["name"].value) for i, state in enumerate(program.parser["parse_states"].items())}
