"""Reads a BMv2 JSON document into a `Program`, section by section, and checks every reference on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from switch.native.document import Node, ProgramError, parse_document
from switch.native.program import (
    MAX_FIELD_BITS,
    MAX_VARBIT_BITS,
    Action,
    ActionCall,
    Array,
    Checksum,
    Conditional,
    ConstEntry,
    DigestList,
    DirectMeter,
    Field,
    Header,
    HeaderType,
    Pipeline,
    Profile,
    Program,
    Stack,
    Table,
    Union,
    UnionStack,
    lay_out_key,
)

PAUSE_ANNOTATION = "@xoff_queue_pause"
REFUSED_ANNOTATION = "@xoff_refused"


def find_annotated_registers(p4info_text: str, annotation: str) -> list[str]:
    """Names of the registers that carry an annotation, from P4Info in protobuf's text format."""
    names = []
    for block in _top_level_blocks(p4info_text, "registers"):
        for preamble in _top_level_blocks(block, "preamble"):
            name = re.search(r'(?<![a-z_])name\s*:\s*"([^"]*)"', preamble)
            notes = re.findall(r'annotations\s*:\s*"((?:[^"\\]|\\.)*)"', preamble)
            if name and any(note.split("(")[0].strip() == annotation for note in notes):
                names.append(name.group(1))
    return names


def find_changeable_tables(p4info_text: str) -> dict[str, int]:
    """Tables whose entries in the program are only what they begin with, and their sizes, from P4Info's text format.

    BMv2's JSON does not tell them from tables with const entries, and makes the number of entries their size.
    """
    found = {}
    for block in _top_level_blocks(p4info_text, "tables"):
        rest, nested = re.sub(r'"(?:[^"\\]|\\.)*"', '""', block), 1
        while nested:
            rest, nested = re.subn(r"\{[^{}]*\}", "", rest)
        if re.search(r"has_initial_entries\s*:\s*true", rest) and not re.search(
            r"is_const_table\s*:\s*true", rest
        ):
            size = re.search(r"(?<![a-z_])size\s*:\s*(\d+)", rest)
            for preamble in _top_level_blocks(block, "preamble"):
                for name in re.findall(r'(?<![a-z_])name\s*:\s*"([^"]*)"', preamble)[:1]:
                    found[name] = int(size.group(1)) if size else 0
    return found


def _top_level_blocks(text: str, label: str) -> list[str]:
    """The bodies of `label { ... }` at depth 0 of a text-format message, strings respected."""
    blocks, depth, start, wanted = [], 0, 0, False
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|#[^\n]*|[{}]|[A-Za-z_][A-Za-z0-9_]*', text):
        lexeme = token.group()
        if lexeme == "{":
            if depth == 0:
                start = token.end()
            depth += 1
        elif lexeme == "}":
            depth -= 1
            if depth == 0 and wanted:
                blocks.append(text[start : token.start()])
        elif depth == 0 and lexeme[0] not in '"#':
            wanted = lexeme == label
    return blocks


class Reader:
    """Reads one document, section by section, in BMv2's own order."""

    def __init__(self, json_text: str, p4info_text: str | None) -> None:
        self.json_text = json_text
        self.p4info_text = p4info_text
        self.changeable = {} if p4info_text is None else find_changeable_tables(p4info_text)
        self.root = parse_document(json_text, "program")
        self.header_types: dict[str, HeaderType] = {}
        self.headers: dict[str, Header] = {}
        self.by_id: dict[int, Header] = {}
        self.actions: dict[int, Action] = {}
        self.tables: dict[str, Table] = {}
        self.profiles: dict[str, Profile] = {}
        self.direct_counters: dict[str, str] = {}
        self.direct_meters: dict[str, DirectMeter] = {}

    def section(self, name: str) -> list[Node]:
        return self.root.get(name).named()

    def unique(self, table: Mapping[str, object], node: Node) -> str:
        name = node["name"].text()
        if name in table:
            raise node.fail(f"'{name}' is defined twice")
        return name

    def program(self) -> Program:
        meta = self.root.get("__meta__")
        if not meta.missing and not meta.get("version").missing:
            major = meta["version"][0].integer()
            if major != 2:
                raise meta["version"].fail(f"version {major} of the format is not known; 2 is")
        self.read_header_types()
        self.read_headers()
        stacks = self.read_stacks()
        unions = self.read_unions()
        union_stacks = self.read_union_stacks(unions)
        errors = {n[0].text(): n[1].integer() for n in self.section("errors")}
        aliases = {}
        for alias in self.section("field_aliases"):
            source, target = alias.tuple(2)
            aliases[source.text()] = (target[0].text(), target[1].text())
        self.read_actions()
        counters, meters, registers, value_sets = self.read_arrays()
        calculations: dict[str, tuple[str, Node]] = {}
        for node in self.section("calculations"):
            calculations[self.unique(calculations, node)] = (node["algo"].text(), node["input"])
        pipelines = self.read_pipelines()
        checksums = self.read_checksums(calculations)
        digests = {}
        for node in self.section("learn_lists"):
            digest = DigestList(node["id"].integer(1), node["name"].text(), node["elements"])
            digests[digest.id] = digest
        field_lists = {n["id"].integer(): n["elements"] for n in self.section("field_lists")}
        parsers, deparsers = self.section("parsers"), self.section("deparsers")
        pause = None
        if self.p4info_text is not None:
            annotated = find_annotated_registers(self.p4info_text, PAUSE_ANNOTATION)
            if len(annotated) > 1:
                raise ProgramError(
                    f"P4Info: more than one register is annotated {PAUSE_ANNOTATION}: {annotated}"
                )
            if annotated:
                pause = annotated[0]
                if pause not in registers:
                    raise ProgramError(
                        f"P4Info: register '{pause}' ({PAUSE_ANNOTATION}) is not in the program"
                    )
                if registers[pause].width > 64:
                    raise ProgramError(f"register '{pause}' ({PAUSE_ANNOTATION}) is wider than 64 bits")
        program = Program(
            json_text=self.json_text,
            p4info_text=self.p4info_text,
            header_types=self.header_types,
            headers=self.headers,
            stacks=stacks,
            unions=unions,
            union_stacks=union_stacks,
            aliases=aliases,
            errors=errors,
            actions=sorted(self.actions.values(), key=lambda a: a.index),
            tables=self.tables,
            profiles=self.profiles,
            counters=counters,
            direct_counters=self.direct_counters,
            meters=meters,
            direct_meters=self.direct_meters,
            direct_meter_tables={t.meter: t.name for t in self.tables.values() if t.meter},
            registers=registers,
            value_sets=value_sets,
            digests=digests,
            field_lists=field_lists,
            calculations=calculations,
            checksums=checksums,
            pipelines=pipelines,
            parser=self.pick(parsers, "parser"),
            deparser=self.pick(deparsers, "deparser"),
            pause_register=pause,
            takes_refused=bool(find_annotated_registers(self.p4info_text or "", REFUSED_ANNOTATION)),
            root=self.root,
        )
        for table in self.tables.values():
            if table.meter:
                program.field(self.direct_meters[table.meter].target)
        return program

    @staticmethod
    def pick(nodes: list[Node], name: str) -> Node | None:
        for node in nodes:
            if node["name"].text() == name:
                return node
        return None

    def read_header_types(self) -> None:
        for node in self.section("header_types"):
            name = self.unique(self.header_types, node)
            fields: list[Field] = []
            by_name: dict[str, int] = {}
            fixed = 0
            varbit = -1
            for entry in node["fields"].items():
                field_name = entry[0].text()
                if field_name in by_name:
                    raise entry.fail(f"field '{field_name}' is defined twice")
                by_name[field_name] = len(fields)
                signed = len(entry.items()) > 2 and entry[2].truth()
                if entry[1].value == "*":
                    if varbit >= 0:
                        raise entry.fail("a header type can have one varbit only")
                    varbit = len(fields)
                    fields.append(Field(field_name, 0, varbit=True))
                else:
                    width = entry[1].integer(0, MAX_FIELD_BITS)
                    fixed += width
                    fields.append(Field(field_name, width, signed))
            if varbit >= 0:
                if not node.get("length_exp").missing:
                    raise node["length_exp"].fail("varbit lengths by expression (P4_14) are not supported")
                longest = node.get("max_length")
                if longest.missing:
                    raise node.fail("'max_length' is missing for a header type with a varbit")
                bits = longest.integer(0, MAX_VARBIT_BITS // 8) * 8 - fixed
                if bits < 0:
                    raise longest.fail("is shorter than the header type's fixed fields")
                fields[varbit] = Field(fields[varbit].name, bits, varbit=True)
            self.header_types[name] = HeaderType(len(self.header_types), name, fields, by_name, node)

    def read_headers(self) -> None:
        for node in self.section("headers"):
            name = self.unique(self.headers, node)
            kind = node["header_type"].text()
            if kind not in self.header_types:
                raise node["header_type"].fail(f"there is no header type '{kind}'")
            number = node["id"].integer()
            if number in self.by_id:
                raise node["id"].fail(f"id {number} is used twice")
            metadata = node["metadata"].boolean()
            header_type = self.header_types[kind]
            if not metadata and header_type.fixed_bits % 8:
                raise node.fail(
                    f"header type '{kind}' is {header_type.fixed_bits} bits long, not whole bytes"
                )
            if metadata and header_type.varbit and header_type.varbit.width <= 0:
                raise node.fail(f"header type '{kind}' has an empty varbit")
            header = Header(len(self.headers), number, name, header_type, metadata)
            self.headers[name] = header
            self.by_id[number] = header

    def header_of(self, node: Node) -> Header:
        number = node.integer()
        if number not in self.by_id:
            raise node.fail(f"there is no header with id {number}")
        return self.by_id[number]

    def read_stacks(self) -> dict[str, Stack]:
        stacks: dict[str, Stack] = {}
        for node in self.section("header_stacks"):
            name = self.unique(stacks, node)
            kind = node["header_type"].text()
            if kind not in self.header_types:
                raise node["header_type"].fail(f"there is no header type '{kind}'")
            stack = Stack(len(stacks), name, self.header_types[kind], [])
            for i, item in enumerate(node["header_ids"].items()):
                header = self.header_of(item)
                if header.type is not stack.type:
                    raise item.fail(f"header '{header.name}' is not of type '{kind}'")
                if header.stack or header.metadata:
                    raise item.fail(f"header '{header.name}' cannot be in this stack")
                header.stack = (stack.index, i)
                stack.headers.append(header)
            if not stack.headers:
                raise node.fail("a stack needs at least one header")
            stacks[name] = stack
        return stacks

    def read_unions(self) -> dict[str, Union]:
        member_names = {}
        for node in self.section("header_union_types"):
            member_names[node["name"].text()] = [m[0].text() for m in node["headers"].items()]
        unions: dict[str, Union] = {}
        for node in self.section("header_unions"):
            name = self.unique(unions, node)
            kind = node["union_type"].text()
            if kind not in member_names:
                raise node["union_type"].fail(f"there is no header union type '{kind}'")
            union = Union(len(unions), name, kind, [], member_names[kind])
            for i, item in enumerate(node["header_ids"].items()):
                header = self.header_of(item)
                if header.union or header.stack or header.metadata:
                    raise item.fail(f"header '{header.name}' cannot be in this union")
                header.union = (union.index, i)
                union.members.append(header)
            if len(union.members) != len(union.member_names):
                raise node["header_ids"].fail(f"union type '{kind}' has {len(union.member_names)} members")
            unions[name] = union
        return unions

    def read_union_stacks(self, unions: dict[str, Union]) -> dict[str, UnionStack]:
        by_id = {}
        for node in self.section("header_unions"):
            by_id[node["id"].integer()] = unions[node["name"].text()]
        stacks: dict[str, UnionStack] = {}
        for node in self.section("header_union_stacks"):
            name = self.unique(stacks, node)
            stack = UnionStack(len(stacks), name, [])
            for i, item in enumerate(node["header_union_ids"].items()):
                number = item.integer()
                if number not in by_id or by_id[number].stack:
                    raise item.fail(f"there is no free header union with id {number}")
                by_id[number].stack = (stack.index, i)
                stack.unions.append(by_id[number])
            if not stack.unions or len({u.type for u in stack.unions}) != 1:
                raise node["header_union_ids"].fail("a union stack needs unions of one type")
            stacks[name] = stack
        return stacks

    def read_actions(self) -> None:
        for node in self.section("actions"):
            number = node["id"].integer()
            if number in self.actions:
                raise node["id"].fail(f"action id {number} is used twice")
            params = []
            for param in node["runtime_data"].items():
                params.append((param["name"].text(), param["bitwidth"].integer(0, MAX_FIELD_BITS)))
            self.actions[number] = Action(
                len(self.actions), number, node["name"].text(), params, node["primitives"]
            )

    def action_of(self, node: Node) -> Action:
        number = node.integer()
        if number not in self.actions:
            raise node.fail(f"there is no action with id {number}")
        return self.actions[number]

    def read_arrays(
        self,
    ) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array], dict[str, Array]]:
        counters: dict[str, Array] = {}
        for node in self.section("counter_arrays"):
            name = self.unique({**counters, **self.direct_counters}, node)
            if node.get("is_direct").flag():
                self.direct_counters[name] = node["binding"].text()
            else:
                counters[name] = Array(len(counters), name, node["size"].integer(0, 2**28))
        meters: dict[str, Array] = {}
        for node in self.section("meter_arrays"):
            name = self.unique({**meters, **self.direct_meters}, node)
            kind = node["type"].text()
            if kind not in ("bytes", "packets"):
                raise node["type"].fail(f"expected 'bytes' or 'packets', found '{kind}'")
            if node["rate_count"].integer() != 2:
                raise node["rate_count"].fail("only meters of two rates are supported")
            if node.get("is_direct").flag():
                self.direct_meters[name] = DirectMeter(name, kind == "bytes", node["result_target"])
            else:
                meters[name] = Array(len(meters), name, node["size"].integer(0, 2**24), bytes=kind == "bytes")
        registers: dict[str, Array] = {}
        for node in self.section("register_arrays"):
            name = self.unique(registers, node)
            width = node["bitwidth"].integer(1, MAX_FIELD_BITS)
            registers[name] = Array(len(registers), name, node["size"].integer(0, 2**28), width)
        value_sets: dict[str, Array] = {}
        for node in self.section("parse_vsets"):
            name = self.unique(value_sets, node)
            width = node["compressed_bitwidth"].integer(1, MAX_FIELD_BITS)
            size = node.get("max_size")
            value_sets[name] = Array(
                len(value_sets), name, 65536 if size.missing else size.integer(0, 65536), width
            )
        return counters, meters, registers, value_sets

    def read_pipelines(self) -> dict[str, Pipeline]:
        pipelines: dict[str, Pipeline] = {}
        for node in self.section("pipelines"):
            name = self.unique(pipelines, node)
            for item in node.get("action_profiles").named():
                profile = self.unique(self.profiles, item)
                selector = None
                if not item.get("selector").missing:
                    selector = (item["selector"]["algo"].text(), item["selector"]["input"])
                size = item.get("max_size")
                limit = 1024 if size.missing else size.integer(0, 2**20)
                self.profiles[profile] = Profile(len(self.profiles), profile, limit, selector)
            nodes: dict[str, Table | Conditional | ActionCall] = {}
            for item in node["tables"].named():
                table = self.read_table(item, name)
                self.tables[table.name] = nodes[table.name] = table
            for item in node.get("conditionals").named():
                conditional = Conditional(
                    self.unique(nodes, item),
                    item["expression"],
                    self.next_name(item.get("true_next")),
                    self.next_name(item.get("false_next")),
                )
                nodes[conditional.name] = conditional
            for item in node.get("action_calls").named():
                action = self.action_of(item["action_id"])
                if action.params:
                    raise item.fail(f"action '{action.name}' takes arguments and cannot be called directly")
                call = ActionCall(self.unique(nodes, item), action, self.next_name(item.get("next_node")))
                nodes[call.name] = call
            pipeline = Pipeline(name, self.next_name(node["init_table"]), nodes, node)
            self.check_edges(pipeline)
            pipelines[name] = pipeline
        return pipelines

    @staticmethod
    def next_name(node: Node) -> str | None:
        return None if node.missing else node.text()

    @staticmethod
    def check_edges(pipeline: Pipeline) -> None:
        """Every next node exists and no path comes back to where it was (BMv2 controls have no loops)."""
        edges: dict[str, list[str]] = {}
        for name, item in pipeline.nodes.items():
            if isinstance(item, Table):
                targets = [*item.next_tables.values(), item.default_next]
            elif isinstance(item, Conditional):
                targets = [item.true_next, item.false_next]
            else:
                targets = [item.next]
            edges[name] = [t for t in targets if t is not None]
            for target in edges[name]:
                if target not in pipeline.nodes:
                    raise pipeline.node.fail(f"'{name}' leads to '{target}', which does not exist")
        if pipeline.first is not None and pipeline.first not in pipeline.nodes:
            raise pipeline.node.fail(f"init_table '{pipeline.first}' does not exist")
        state: dict[str, int] = {}
        for start in edges:
            stack = [(start, iter(edges[start]))] if start not in state else []
            state.setdefault(start, 1)
            while stack:
                name, left = stack[-1]
                following = next(left, None)
                if following is None:
                    state[name] = 2
                    stack.pop()
                elif state.get(following) == 1:
                    raise pipeline.node.fail(f"the control flow loops through '{following}'")
                elif following not in state:
                    state[following] = 1
                    stack.append((following, iter(edges[following])))

    def read_table(self, node: Node, pipeline: str) -> Table:
        name = self.unique(self.tables, node)
        fields = []
        for item in node["key"].items():
            kind = item["match_type"].text()
            if kind not in ("exact", "lpm", "ternary", "range", "optional", "valid"):
                raise item["match_type"].fail(f"match kind '{kind}' is not known")
            target = item["target"]
            if kind == "valid":
                header_name, field_name, width = target.text(), "", 1
                self.header_named(target, header_name)
            else:
                header_node, field_node = target.tuple(2)
                header_name, field_name = header_node.text(), field_node.text()
                header = self.header_named(header_node, header_name)
                if field_name == "$valid$":
                    width = 1
                elif field_name in header.type.by_name:
                    chosen = header.type.fields[header.type.by_name[field_name]]
                    if chosen.varbit:
                        raise field_node.fail("a varbit cannot be a key")
                    width = chosen.width
                else:
                    raise field_node.fail(f"header '{header_name}' has no field '{field_name}'")
            label = item.get("name")
            mask = item.get("mask")
            shown = label.text() if not label.missing else f"{header_name}.{field_name}".rstrip(".")
            fields.append(
                (kind, shown, header_name, field_name, width, None if mask.missing else mask.hexstr())
            )
        match_type = node["match_type"].text()
        if sum(1 for f in fields if f[0] == "lpm") > 1:
            raise node["key"].fail("a table can have one lpm key only")
        key, words = lay_out_key(fields)
        if words > 64:
            raise node["key"].fail("the key is longer than 4096 bits")
        actions = []
        if not node.get("action_ids").missing:
            actions = [self.action_of(item) for item in node["action_ids"].items()]
        else:
            by_name = {a.name: a for a in self.actions.values()}
            for item in node["actions"].items():
                if item.text() not in by_name:
                    raise item.fail(f"there is no action '{item.value}'")
                actions.append(by_name[item.text()])
        next_tables = {label: self.next_name(target) for label, target in node["next_tables"].members()}
        if not ("__HIT__" in next_tables or "__MISS__" in next_tables):
            for action in actions:
                if action.name not in next_tables:
                    raise node["next_tables"].fail(f"action '{action.name}' is missing")
        kind = node["type"].text()
        profile = None
        if kind in ("indirect", "indirect_ws"):
            wanted = node["action_profile"].text()
            if wanted not in self.profiles:
                raise node["action_profile"].fail(f"there is no action profile '{wanted}'")
            profile = self.profiles[wanted].index
        elif kind != "simple":
            raise node["type"].fail(f"table type '{kind}' is not known")
        meter = node.get("direct_meters")
        if not meter.missing and meter.text() not in self.direct_meters:
            raise meter.fail(f"there is no direct meter '{meter.value}'")
        default_action: Action | None = None
        default_args: tuple[int, ...] = ()
        default_const = False
        default = node.get("default_entry")
        if not default.missing:
            default_action = self.action_of(default["action_id"])
            default_const = (
                default.get("action_entry_const").flag() if not default.get("action_data").missing else False
            )
            default_args = self.action_data(default_action, default["action_data"])
        table = Table(
            index=len(self.tables),
            name=name,
            pipeline=pipeline,
            match_type=match_type,
            key=key,
            key_words=words,
            actions=actions,
            next_tables=next_tables,
            default_next=self.next_name(node.get("base_default_next")),
            size=0,
            profile=profile,
            with_counters=node.get("with_counters").flag(),
            with_timeout=node.get("support_timeout").flag(),
            meter=None if meter.missing else meter.text(),
            default_action=default_action,
            default_args=default_args,
            default_const=default_const,
            entries=[],
            entries_const=False,
            node=node,
        )
        if default_action is not None and default_action not in actions:
            table.actions.append(default_action)
            if not ("__HIT__" in next_tables or "__MISS__" in next_tables):
                next_tables.setdefault(default_action.name, table.default_next)
        for item in node.get("entries").named():
            table.entries.append(self.read_entry(table, item))
        self.rank_entries(table)
        table.entries_const = bool(table.entries) and name not in self.changeable
        size = node.get("max_size")
        table.size = max(
            0 if size.missing else size.integer(),
            len(table.entries),
            min(self.changeable.get(name, 0), 1 << 30),
        )
        if profile is not None:
            next(p for p in self.profiles.values() if p.index == profile).tables.append(table)
        return table

    def header_named(self, node: Node, name: str) -> Header:
        if name not in self.headers:
            raise node.fail(f"there is no header '{name}'")
        return self.headers[name]

    @staticmethod
    def action_data(action: Action, node: Node) -> tuple[int, ...]:
        items = node.items()
        if len(items) != len(action.params):
            raise node.fail(
                f"action '{action.name}' takes {len(action.params)} arguments, found {len(items)}"
            )
        return tuple(
            item.hexstr() & ((1 << width) - 1) for item, (_, width) in zip(items, action.params, strict=True)
        )

    def read_entry(self, table: Table, node: Node) -> ConstEntry:
        items = node["match_key"].items()
        if len(items) != len(table.key):
            raise node["match_key"].fail(
                f"table '{table.name}' has {len(table.key)} keys, found {len(items)}"
            )
        key: list[tuple[int | str, ...]] = []
        for item, k in zip(items, table.key, strict=True):
            kind = item["match_type"].text()
            bits = k.width + -k.width % 8
            if kind == "valid":
                key.append(("valid", int(item["key"].boolean())))
            elif kind == "exact":
                key.append(("exact", item["key"].hexstr(bits)))
            elif kind == "lpm":
                key.append(("lpm", item["key"].hexstr(bits), item["prefix_length"].integer(0, k.width)))
            elif kind in ("ternary", "optional"):
                key.append(("ternary", item["key"].hexstr(bits), item["mask"].hexstr(bits)))
            elif kind == "range":
                key.append(("range", item["start"].hexstr(bits), item["end"].hexstr(bits)))
            else:
                raise item["match_type"].fail(f"match kind '{kind}' is not known")
            if (kind if kind != "optional" else "ternary") != ("ternary" if k.kind == "optional" else k.kind):
                raise item["match_type"].fail(f"key '{k.name}' is matched by {k.kind}, not {kind}")
        entry = node["action_entry"]
        action = self.action_of(entry["action_id"])
        if action not in table.actions:
            raise entry["action_id"].fail(f"table '{table.name}' has no action '{action.name}'")
        priority = node.get("priority")
        rank = 0 if priority.missing else priority.integer(0, 2**31 - 2)
        args = self.action_data(action, entry["action_data"])
        return ConstEntry(tuple(key), action, args, 0, rank)

    @staticmethod
    def rank_entries(table: Table) -> None:
        """BMv2's priorities count downwards from the most urgent; as P4Runtime's the last entry has 1."""
        if table.ranked and table.entries:
            last = max(entry.rank for entry in table.entries)
            table.entries = [replace(entry, priority=last + 1 - entry.rank) for entry in table.entries]

    def read_checksums(self, calculations: dict[str, tuple[str, Node]]) -> list[Checksum]:
        checksums = []
        for node in self.section("checksums"):
            if node["type"].text() != "generic":
                raise node["type"].fail("only checksums of type 'generic' are supported")
            name = node["calculation"].text()
            if name not in calculations:
                raise node["calculation"].fail(f"there is no calculation '{name}'")
            update, verify = node.get("update"), node.get("verify")
            checksums.append(
                Checksum(
                    node["name"].text(),
                    node["target"],
                    name,
                    True if update.missing else update.boolean(),
                    True if verify.missing else verify.boolean(),
                    node.get("if_cond"),
                )
            )
        return checksums
