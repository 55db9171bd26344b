"""A program in C: one self-contained translation unit against `pipeline.h`.

The unit holds the PHV and its codecs, the calculations, the actions, the parser, the two pipelines as labels and
gotos, the deparser, and the descriptors that tell the engine which tables and state to make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from switch.native.cgen_actions import Actions, Intrinsics
from switch.native.cgen_arrays import places
from switch.native.cgen_calc import Calculations, custom_crc_widths
from switch.native.cgen_expr import Body, Expressions
from switch.native.cgen_layout import Layout, pointers
from switch.native.cgen_parser import Parser
from switch.native.cgen_trace import (
    CONDITION,
    DEPARSED,
    EGRESS,
    EGRESS_END,
    INGRESS,
    INGRESS_END,
    TABLE,
    Tracing,
)
from switch.native.document import Node
from switch.native.keys import encode_key
from switch.native.program import (
    ActionCall,
    Conditional,
    KeyField,
    Pipeline,
    Program,
    ProgramError,
    Table,
    limbs,
)

SYMBOL = "xf_program_get"


def generate(program: Program, *, traced: bool = False) -> str:
    """C source of a program; also fills its `log_messages`, `digest_widths` and `value_set_widths`.

    `traced` adds trace points (cgen_trace.py); without it nothing of them is in the code.
    """
    return _Generator(program, traced).source()


def _quote(text: str) -> str:
    return '"' + "".join(c if c.isalnum() or c in "_.$-[]:" else "_" for c in text) + '"'


class _Generator:
    def __init__(self, program: Program, traced: bool) -> None:
        self.program = program
        self.layout = Layout(program)
        self.tracing = Tracing(program, self.layout, traced)
        self.intrinsics = Intrinsics(program, self.layout)
        self.actions = Actions(program, self.layout, self.intrinsics, self.tracing)
        self.calculations = Calculations(program, self.layout, self.intrinsics)
        self.reader = Expressions(program, self.layout)
        program.log_messages.clear()
        program.digest_widths.clear()
        program.value_set_widths.clear()

    def source(self) -> str:
        program = self.program
        for name in ("standard_metadata.egress_spec",):
            if self.intrinsics.target(name) is None:
                raise ProgramError(f"program.headers: there is no {name}; this is not a v1model program")
        for name in ("ingress", "egress"):
            if name not in program.pipelines:
                raise ProgramError(f"program.pipelines: there is no pipeline '{name}'")
        used = self.used_actions()
        action_functions = [self.actions.function(a) for a in program.actions if a.index in used]
        parts = [
            '#include "pipeline.h"',
            self.layout.structs(),
            self.layout.codecs(),
            self.tracing.function(),
            self.calculations.functions(),
            "\n\n".join(action_functions),
            Parser(program, self.layout, self.actions).function(),
            self.copy_fields(),
            self.ingress(),
            self.egress(),
            self.deparse(),
            self.digests(),
            self.small_functions(),
        ]
        code = "\n\n".join(part for part in parts if part)
        return f"{code}\n\n{self.descriptors(code)}\n"

    def used_actions(self) -> set[int]:
        used = set()
        for pipeline in self.program.pipelines.values():
            for node in pipeline.nodes.values():
                if isinstance(node, Table):
                    used |= {a.index for a in node.actions}
                elif isinstance(node, ActionCall):
                    used.add(node.action.index)
        return used

    # ---- pipelines ----

    def ingress(self) -> str:
        lines = [
            "static void ingress(xf_ctx *x, void *phv) {",
            "    struct phv *P = phv;",
            "    fresh(P);",
        ]
        body = Body()
        body.lines += self.intrinsics.set("standard_metadata.ingress_port", "x->ingress_port")
        body.lines += self.intrinsics.set("intrinsic_metadata.ingress_global_timestamp", "x->ticks")
        body.add("if (x->source) copy_fields(x->source_list, P, x->source);")
        body.lines += self.intrinsics.set("standard_metadata.packet_length", "x->packet_length")
        body.lines += self.intrinsics.set("standard_metadata.instance_type", "x->instance_type")
        self.tracing.point(body, INGRESS, "x->instance_type", "x->ingress_port", "x->length")
        body.add("parse(x, P);")
        for checksum in self.program.checksums:
            if checksum.verify:
                body.lines += self.calculations.checksum(checksum, True)
        body.lines += self.intrinsics.set("standard_metadata.parser_error", "x->parser_error")
        body.lines += self.intrinsics.set("standard_metadata.checksum_error", "x->checksum_error")
        body.lines += self.control(self.program.pipelines["ingress"])
        body.add(f"x->egress_spec = (uint32_t){self.intrinsics.get('standard_metadata.egress_spec')};")
        body.add(f"x->mcast_grp = (uint32_t){self.intrinsics.get('intrinsic_metadata.mcast_grp')};")
        self._end(body, INGRESS_END, "x->resubmit_list")
        return "\n".join(lines + ["    " + line for line in body.lines] + ["}"])

    def egress(self) -> str:
        body = Body()
        body.add("struct phv *P = phv;")
        for name, value in (
            ("intrinsic_metadata.egress_global_timestamp", "x->ticks"),
            ("queueing_metadata.enq_timestamp", "x->enq_ticks"),
            ("queueing_metadata.enq_qdepth", "x->enq_qdepth"),
            ("queueing_metadata.deq_timedelta", "x->deq_timedelta"),
            ("queueing_metadata.deq_qdepth", "x->deq_qdepth"),
            ("queueing_metadata.qid", "x->qid"),
            ("standard_metadata.egress_port", "x->egress_port"),
            ("standard_metadata.egress_spec", "(x->drop_port + 1)"),
            ("standard_metadata.packet_length", "x->packet_length"),
        ):
            body.lines += self.intrinsics.set(name, value)
        self.tracing.point(body, EGRESS, "x->egress_port", "x->qid", "x->enq_qdepth")
        body.lines += self.control(self.program.pipelines["egress"])
        body.add(f"x->egress_spec = (uint32_t){self.intrinsics.get('standard_metadata.egress_spec')};")
        self._end(body, EGRESS_END, "x->recirculate_list")
        text = "\n".join("    " + line for line in body.lines)
        return f"static void egress(xf_ctx *x, void *phv) {{\n{text}\n}}"

    def _end(self, body: Body, kind: int, again: str) -> None:
        """The packet's fate: a egress_spec and multicast group, b clone session and digest, c re-entry."""
        self.tracing.point(
            body,
            kind,
            "(uint64_t)x->mcast_grp << 32 | x->egress_spec",
            "(uint64_t)x->digest_list << 32 | x->clone_session",
            again,
        )

    def control(self, pipeline: Pipeline) -> list[str]:
        """The nodes of a pipeline, in the order a walk from the first meets them."""
        order: list[str] = []
        seen: set[str] = set()
        stack = [pipeline.first] if pipeline.first else []
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            order.append(name)
            stack += [t for t in self.targets(pipeline, name) if t not in seen][::-1]
        numbers = {name: i for i, name in enumerate(order)}

        def goto(name: str | None) -> str:
            return f"goto N{numbers[name]};" if name is not None else "goto done;"

        lines = ["x->budget = XF_LOOP_BUDGET;"]
        lines.append(f"goto N{numbers[pipeline.first]};" if pipeline.first else "goto done;")
        for name in order:
            node = pipeline.nodes[name]
            lines.append(f"N{numbers[name]}: {{ /* {_quote(name)[1:-1]} */")
            body = Body()
            if isinstance(node, Table):
                self.table(node, goto, body)
            elif isinstance(node, Conditional):
                cond = self.reader.boolean(node.expression, body)
                if self.tracing.on:
                    value = body.temp()
                    body.add(f"uint64_t {value} = ({cond}) != 0;")
                    cond = value
                    self.tracing.point(body, CONDITION, str(self._node_number(pipeline, name)), value)
                body.add(f"if ({cond}) {goto(node.true_next)}")
                body.add(goto(node.false_next))
            else:
                body.add(f"a{node.action.index}(x, P, NULL);")
                if node.action.index in self.actions.exiting:
                    body.add("if (x->exit) goto done;")
                body.add(goto(node.next))
            lines += ["    " + line for line in body.lines]
            lines.append("}")
        lines += ["done:", "x->exit = 0;"]
        return lines

    @staticmethod
    def _node_number(pipeline: Pipeline, name: str) -> int:
        """A node's number in its pipeline, for the reader of a trace."""
        return list(pipeline.nodes).index(name)

    @staticmethod
    def targets(pipeline: Pipeline, name: str) -> list[str]:
        node = pipeline.nodes[name]
        if isinstance(node, Table):
            candidates = [*node.next_tables.values(), node.default_next]
        elif isinstance(node, Conditional):
            candidates = [node.true_next, node.false_next]
        else:
            candidates = [node.next]
        return [c for c in candidates if c is not None]

    def table(self, table: Table, goto: Callable[[str | None], str], body: Body) -> None:
        """A table: look up, run the action, go on."""
        fixed = not table.key and table.default_const and table.default_action is not None
        hit_miss = "__HIT__" in table.next_tables or "__MISS__" in table.next_tables
        hit, miss = table.next_tables.get("__HIT__"), table.next_tables.get("__MISS__")
        if fixed and table.profile is None and table.default_action is not None:
            action = table.default_action
            self.tracing.point(body, TABLE, str(table.index), "0xfffffffful", str(action.index))
            if table.default_args:
                words = body.temp()
                body.add(f"static const uint64_t {words}[] = {pointers(action.encode(table.default_args))};")
                body.add(f"a{action.index}(x, P, {words});")
            else:
                body.add(f"a{action.index}(x, P, NULL);")
            if action.index in self.actions.exiting:
                body.add("if (x->exit) goto done;")
            body.add(goto(miss if hit_miss else table.next_tables.get(action.name, table.default_next)))
            return
        body.add(f"xf_table *table = x->tables[{table.index}];")
        body.add("xf_entry *entry = NULL;")
        body.add("xf_act act;")
        if table.key:
            body.add(f"uint64_t key[{table.key_words or 1}];")
            self.build_key(table, body)
            if table.meter:
                body.add("entry = xf_lookup(table, key);")
        if table.meter:
            target = self.reader.target(_field_param(self.program.direct_meters[table.meter].target), body)
            body.add("if (entry) {")
            colour = "xf_entry_meter(x, table, entry)"
            body.add(
                f"{target.lvalue} = {colour};"
                if target.field.width <= 64
                else f"{target.lvalue}[0] = {colour};"
            )
            body.add("}")
        selector = "0"
        if table.profile is not None:
            profile = next(p for p in self.program.profiles.values() if p.index == table.profile)
            if profile.selector:
                selector = f"select{profile.index}(x, P)"
        if table.key and not table.meter:
            body.add(f"entry = xf_match(x, table, key, {selector}, &act);")
        else:
            body.add(f"xf_apply(x, table, entry, {selector}, &act);")
        self.tracing.point(body, TABLE, str(table.index), "xf_entry_handle(entry)", "act.action")
        body.add("switch (act.action) {")
        for action in table.actions:
            body.add(f"case {action.index}:")
            body.add(f"    a{action.index}(x, P, act.args);")
            if action.index in self.actions.exiting:
                body.add("    if (x->exit) goto done;")
            if not hit_miss:
                body.add(f"    {goto(table.next_tables.get(action.name))}")
            else:
                body.add("    break;")
        body.add("default: break;")
        body.add("}")
        if hit_miss:
            body.add(f"if (act.hit) {goto(hit)}")
            body.add(goto(miss))
        else:
            body.add(goto(table.default_next))

    def build_key(self, table: Table, body: Body) -> None:
        words: dict[int, list[str]] = {}
        for field in table.key:
            if field.width > 64:
                self.wide_key(field, body)
            elif field.width:
                value = self.key_value(field)
                if field.mask is not None:
                    value = f"({value} & {field.mask & ((1 << field.width) - 1):#x}ul)"
                text = f"{value} << {field.shift}" if field.shift else value
                words.setdefault(field.word, []).append(text)
            else:
                words.setdefault(field.word, []).append("0")
        for word, parts in words.items():
            body.add(f"key[{word}] = {' | '.join(parts)};")

    def key_value(self, field: KeyField) -> str:
        header = self.program.headers[field.header]
        place = self.layout.place(header)
        if field.kind == "valid" or field.field == "$valid$":
            return f"(uint64_t){place.valid}"
        return f"(uint64_t){place.field(header.type.by_name[field.field])}"

    def wide_key(self, field: KeyField, body: Body) -> None:
        header = self.program.headers[field.header]
        lvalue = self.layout.place(header).field(header.type.by_name[field.field])
        for i in range(field.words):
            mask = ""
            if field.mask is not None:
                mask = f" & {(field.mask >> 64 * i) & 0xFFFFFFFFFFFFFFFF:#x}ul"
            body.add(f"key[{field.word + i}] = {lvalue}[{i}]{mask};")

    # ---- around the pipelines ----

    def copy_fields(self) -> str:
        lines = [
            "static void copy_fields(uint32_t list, void *to, const void *from) {",
            "    switch (list) {",
        ]
        for number, elements in self.program.field_lists.items():
            lines.append(f"    case {number}:")
            for element in elements.items():
                kind = element["type"].text()
                if kind == "hexstr":
                    continue
                if kind != "field":
                    raise element["type"].fail(f"'{kind}' cannot be in a field list")
                header, chosen = self.program.field(element["value"])
                lvalue = self.layout.place(header).field(header.type.by_name[chosen.name])
                to = lvalue.replace("P->", "((struct phv *)to)->")
                source = lvalue.replace("P->", "((const struct phv *)from)->")
                if chosen.varbit:
                    lines.append(f"        memcpy({to}, {source}, sizeof {to}); {to}n = {source}n;")
                elif chosen.width > 64:
                    lines.append(f"        memcpy({to}, {source}, sizeof {to});")
                else:
                    lines.append(f"        {to} = {source};")
            lines.append("        break;")
        lines += ["    default: break;", "    }", "    (void)to; (void)from;", "}"]
        return "\n".join(lines)

    def deparse(self) -> str:
        body = Body()
        body.add("struct phv *P = phv;")
        body.add("uint8_t *d = payload;")
        for checksum in self.program.checksums:
            if checksum.update:
                body.lines += self.calculations.checksum(checksum, False)
        if self.program.deparser is not None:
            primitives = self.program.deparser.get("primitives")
            if not primitives.missing:
                for node in primitives.items():
                    inner = Body()
                    self.actions.primitive(node, inner, [])
                    body.lines += ["{", *inner.lines, "}"]
            for node in reversed(self.program.deparser["order"].items()):
                header = self.program.headers.get(node.text())
                if header is None or header.metadata:
                    raise node.fail(f"there is no header '{node.value}'")
                place = self.layout.place(header)
                body.add(f"if ({place.valid}) {{")
                body.add(f"d -= {place.size};")
                body.add(f"pack_T{place.type.index}(&{place.lvalue}, d);")
                body.add("}")
        body.add("(void)x; (void)P;")
        self.tracing.point(body, DEPARSED, "(uint64_t)(payload - d)")
        body.add("return (uint32_t)(payload - d);")
        text = "\n".join("    " + line for line in body.lines)
        return f"static uint32_t deparse(xf_ctx *x, void *phv, uint8_t *payload) {{\n{text}\n}}"

    def header_bytes(self) -> int:
        if self.program.deparser is None:
            return 0
        total = 0
        for node in self.program.deparser["order"].items():
            kind = self.program.headers[node.text()].type
            total += (kind.fixed_bits + (kind.varbit.width if kind.varbit else 0) + 7) // 8
        return total

    def digests(self) -> str:
        lines = ["static uint32_t digest(uint32_t list, const void *phv, uint64_t *w) {"]
        lines += ["    const struct phv *P = phv;", "    uint32_t n = 0;", "    switch (list) {"]
        for digest in self.program.digests.values():
            widths: list[int] = []
            lines.append(f"    case {digest.id}:")
            for element in digest.elements.items():
                if element["type"].text() != "field":
                    raise element["type"].fail(f"'{element['type'].value}' cannot be in a learn list")
                header, chosen = self.program.field(element["value"])
                if chosen.varbit:
                    raise element.fail("a varbit cannot be in a digest")
                lvalue = self.layout.place(header).field(header.type.by_name[chosen.name])
                widths.append(chosen.width)
                if chosen.width <= 64:
                    lines.append(f"        w[n++] = {lvalue};")
                else:
                    lines.append(
                        f"        memcpy(w + n, {lvalue}, sizeof {lvalue}); n += {limbs(chosen.width)};"
                    )
            self.program.digest_widths[digest.id] = widths
            lines.append("        break;")
        lines += ["    default: break;", "    }", "    (void)P; (void)w;", "    return n;", "}"]
        return "\n".join(lines)

    def small_functions(self) -> str:
        def setter(name: str, field: str, value: str) -> str:
            body = "".join(f"    {line}\n" for line in self.intrinsics.set(field, value))
            return (
                f"static void {name}(void *phv, uint32_t v) {{\n    struct phv *P = phv;\n"
                f"    (void)P; (void)v;\n{body}}}"
            )

        priority = self.intrinsics.get("intrinsic_metadata.priority").replace(
            "P->", "((const struct phv *)phv)->"
        )
        port = self.intrinsics.set("standard_metadata.ingress_port", "x->ingress_port")
        return "\n\n".join(
            [
                setter("set_instance", "standard_metadata.instance_type", "v"),
                setter("set_rid", "intrinsic_metadata.egress_rid", "v"),
                "static void reset_metadata(void *phv) {\n"
                "    struct phv *P = phv;\n    memset(&P->m, 0, sizeof P->m);\n}",
                "static uint32_t get_priority(const void *phv) {\n"
                f"    (void)phv;\n    return (uint32_t){priority};\n}}",
                "static void parse_only(xf_ctx *x, void *phv) {\n"
                "    struct phv *P = phv;\n    fresh(P);\n"
                + "".join(f"    {line}\n" for line in port)
                + "    parse(x, P);\n}",
            ]
        )

    # ---- descriptors ----

    def descriptors(self, source: str) -> str:
        """Of the program that the C so far makes up."""
        program = self.program
        lines: list[str] = []
        tables = [self.table_descriptor(t, lines) for t in program.tables.values()]
        entries = self.entry_descriptors(lines)
        value_sets = [
            f"{{{_quote(a.name)}, {a.size}, {self.value_set_words(a.name, a.width)}, 0}}"
            for a in program.value_sets.values()
        ]
        counter_places = places(program.counters.values(), registers=False)
        register_places = places(program.registers.values(), registers=True)
        counters = [
            f"{{{_quote(a.name)}, {a.size}, 2, 0, {p.first}, {p.offset}, {p.stride}}}"
            for a in program.counters.values()
            for p in (counter_places[a.name],)
        ]
        registers = [
            f"{{{_quote(a.name)}, {a.size}, {limbs(a.width)}, 0, {p.first}, {p.offset}, {p.stride}}}"
            for a in program.registers.values()
            for p in (register_places[a.name],)
        ]
        meters = [f"{{{_quote(a.name)}, {a.size}, 0, {int(a.bytes)}}}" for a in program.meters.values()]
        profiles = [f"{{{_quote(p.name)}, {p.size}, {p.arg_words}}}" for p in program.profiles.values()]
        lines += [
            _table("xf_table_desc", "tables", tables),
            _table("xf_entry_init", "entries", entries),
            _table("xf_array_desc", "counters", counters),
            _table("xf_array_desc", "registers", registers),
            _table("xf_array_desc", "meters", meters),
            _table("xf_array_desc", "value_sets", value_sets),
            _table("xf_profile_desc", "profiles", profiles),
            _table("uint8_t", "custom_crcs", [str(width) for width in custom_crc_widths(program).values()]),
        ]
        pause = program.registers[program.pause_register].index if program.pause_register else -1
        digest_words = max((sum(limbs(w) for w in ws) for ws in program.digest_widths.values()), default=0)
        lines.append(
            _table("size_t", "layout", ["XF_LAYOUT", *self.layout.offsets()]),
        )
        digest = hashlib.sha256("\n".join([source, *lines]).encode()).hexdigest()
        fields = {
            "abi": "XF_ABI",
            "phv_size": "sizeof(struct phv)",
            "source": f"0x{digest[:16]}ul",
            "layout": "layout",
            "layout_count": "sizeof layout / sizeof *layout",
            "header_bytes": self.header_bytes(),
            "digest_words": digest_words,
            "table_count": len(tables),
            "entry_count": len(entries),
            "counter_count": len(counters),
            "register_count": len(registers),
            "meter_count": len(meters),
            "profile_count": len(profiles),
            "value_set_count": len(value_sets),
            "calculation_count": len(program.calculations),
            "pause_register": pause,
            "takes_refused": int(program.takes_refused),
        }
        for name in (
            "tables",
            "entries",
            "counters",
            "registers",
            "meters",
            "value_sets",
            "profiles",
            "custom_crcs",
        ):
            fields[name] = name
        for name in (
            "ingress",
            "egress",
            "deparse",
            "reset_metadata",
            "copy_fields",
            "set_instance",
            "set_rid",
        ):
            fields[name] = name
        fields |= {"get_priority": "get_priority", "digest": "digest", "parse": "parse_only"}
        body = "\n".join(f"    .{name} = {value}," for name, value in fields.items())
        lines.append(f"static const xf_program the_program = {{\n{body}\n}};")
        lines.append(f"const xf_program *{SYMBOL}(void) {{\n    return &the_program;\n}}")
        return "\n\n".join(lines)

    def value_set_words(self, name: str, width: int) -> int:
        widths = self.program.value_set_widths.setdefault(name, [width])
        return sum(limbs(w) for w in widths)

    def table_descriptor(self, table: Table, lines: list[str]) -> str:
        ranges = "NULL"
        if table.ranges:
            ranges = f"ranges{table.index}"
            pairs = ", ".join(f"{{{k.word}, {k.words}}}" for k in table.ranges)
            lines.append(f"static const xf_range_desc {ranges}[] = {{{pairs}}};")
        action, args, words = "XF_NO_ACTION", "NULL", 0
        if table.default_action is not None:
            action = str(table.default_action.index)
            encoded = table.default_action.encode(table.default_args)
            words = len(encoded)
            if encoded:
                args = f"default{table.index}"
                lines.append(f"static const uint64_t {args}[] = {pointers(encoded)};")
        meter = self.program.direct_meters[table.meter] if table.meter else None
        return (
            f"{{{_quote(table.name)}, {table.key_words}, {table.arg_words}, {table.size}, {len(table.ranges)}, "
            f"{table.range_words}, {ranges}, {'XF_NO_PROFILE' if table.profile is None else table.profile}, {action}, "
            f"{int(table.default_const)}, {int(table.entries_const)}, {int(table.with_counters)}, "
            f"{int(table.with_timeout)}, {int(meter is not None)}, {int(meter is not None and meter.bytes)}, "
            f"{args}, {words}}}"
        )

    def entry_descriptors(self, lines: list[str]) -> list[str]:
        entries = []
        for table in self.program.tables.values():
            for i, entry in enumerate(table.entries):
                try:
                    key = encode_key(table, _trimmed(table, entry.key), entry.priority)
                except ValueError as error:
                    raise table.node["entries"].fail(f"entry {i}: {error}") from None
                args = entry.action.encode(entry.args)
                args += [0] * (table.arg_words - len(args))
                name = f"e{table.index}_{i}"
                arrays = {"k": key.words, "m": key.mask, "r": key.ranges, "a": args}
                for suffix, words in arrays.items():
                    lines.append(f"static const uint64_t {name}{suffix}[] = {pointers(list(words))};")
                entries.append(
                    f"{{{table.index}, {key.rank}u, {entry.action.index}, {name}k, {name}m, {name}r, {name}a}}"
                )
        return entries


def _trimmed(table: Table, key: Iterable[tuple[int | str, ...]]) -> list[tuple[int | str, ...]]:
    """A const entry's key with masks cut to the fields' widths (p4c pads them to bytes)."""
    trimmed: list[tuple[int | str, ...]] = []
    for element, field in zip(key, table.key, strict=True):
        full = (1 << field.width) - 1
        if element[0] == "lpm":
            trimmed.append((element[0], int(element[1]) & full, element[2]))
        else:
            trimmed.append((element[0], *(int(v) & full for v in element[1:])))
    return trimmed


def _table(kind: str, name: str, items: list[str]) -> str:
    body = ",\n    ".join(items) if items else "{0}"
    return f"static const {kind} {name}[] = {{\n    {body}\n}};"


def _field_param(node: Node) -> Node:
    return Node({"type": "field", "value": node.value}, node.path)
