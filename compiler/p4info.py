"""P4Info: what a controller may know about a compiled program (p4info.proto of P4Runtime), as protobuf text.

Objects come in the order in which the reference compiler visits the instances (breadth first from `main`), so that the
text can be compared with its output line by line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from compiler import tree, types
from compiler.entries import EntriesWriter
from compiler.errors import CompileError
from compiler.instances import Instance, join_name, local_name
from compiler.keynames import field_name
from compiler.p4info_annotations import add_annotations, add_documentation, preamble, string_of
from compiler.p4info_collect import EXTERNS, Collector
from compiler.p4info_ids import annotation_number, id_annotation
from compiler.p4info_types import flatten, padded
from compiler.textproto import Message, Symbol

MATCH_TYPES = {"exact": "EXACT", "lpm": "LPM", "ternary": "TERNARY", "range": "RANGE", "optional": "OPTIONAL"}
UNITS = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
DEFAULT_TABLE_SIZE = 1024
SELECTOR_ANNOTATIONS = frozenset(["max_group_size", "selector_size_semantics", "max_member_weight"])

HEAD = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
ENTRIES_HEAD = "# proto-file: p4/v1/p4runtime.proto\n# proto-message: p4.v1.WriteRequest\n\n"


def p4info_text(program: tree.TypedProgram) -> str:
    """The program's P4Info in protobuf text format. Raises CompileError."""
    return HEAD + P4Info(program).build().write()


def p4info_entries(program: tree.TypedProgram) -> str:
    """The program's `entries` as a P4Runtime WriteRequest in text format (without updates if it has none)."""
    info = P4Info(program)
    writer = EntriesWriter(program.source, info.symbols, info.types)
    for table, path in info.tables():
        writer.table(table, join_name(path, local_name(table)), partial(_named_in, info, path))
    return ENTRIES_HEAD + writer.message.write()


def _named_in(info: P4Info, path: str, action: tree.ActionDecl) -> str:
    return info.name_of(action, path)


class P4Info(Collector):
    """Builds the message."""

    def build(self) -> Message:
        """The whole P4Info."""
        parts: dict[str, list[Message]] = {}
        for action, instance in self.actions():
            self._action(parts, action, instance)
        for decl, instance in self.items:
            if isinstance(decl, tree.TableDecl):
                self._table(parts, decl, instance)
            elif isinstance(decl, tree.ValueSetDecl):
                self._value_set(parts, decl, instance)
            elif decl is None and isinstance(instance.target, tree.ExternDecl):
                self._extern(parts, instance)
        for name, type_ in self.digests:
            self._digest_message(parts, name, type_)
        for header in self.controller_headers():
            self._controller_header(parts, header)
        info = Message()
        self._package(info)
        for field in (
            "tables",
            "actions",
            "action_profiles",
            "counters",
            "direct_counters",
            "meters",
            "direct_meters",
            "controller_packet_metadata",
            "value_sets",
            "registers",
            "digests",
        ):
            for message in parts.get(field, ()):
                info.add(field, message)
        self.types.write(info)
        return info

    def _new(self, parts: dict[str, list[Message]], field: str) -> Message:
        message = Message()
        parts.setdefault(field, []).append(message)
        return message

    def _preamble(
        self,
        message: Message,
        kind: str,
        name: str,
        annotations: Sequence[tree.Annotation],
        leave_out: Sequence[str] | frozenset[str] = (),
    ) -> None:
        number = self.symbols.id(kind, name)
        preamble(message, number, name, self.symbols.alias(name), annotations, self.source, leave_out)

    def _package(self, info: Message) -> None:
        package = info.child("pkg_info")
        fields: dict[str, str] = {"arch": "v1model"}
        main = self.program.main
        found = main.annotation("pkginfo")
        if found is not None:
            for key, value in _pairs(found):
                if isinstance(value, str):
                    fields[key] = value
        for key in ("name", "version"):
            package.set(key, fields.get(key, ""))
        add_documentation(package, main.annotations)
        plain = [a for a in main.annotations if a.name not in ("pkginfo", "platform_property")]
        texts = Message()
        add_annotations(texts, plain, self.source)
        for field, text in texts.fields:
            if field == "annotations":
                package.add(field, text)
        for key in ("arch", "organization", "contact", "url"):
            package.set(key, fields.get(key, ""))
        for field, text in texts.fields:
            if field != "annotations":
                package.add(field, text)
        platform = main.annotation("platform_property")
        if platform is not None:
            message = package.child("platform_properties")
            for key, value in _pairs(platform):
                if isinstance(value, int):
                    message.set(key, value)

    def _action(self, parts: dict[str, list[Message]], action: tree.ActionDecl, instance: Instance) -> None:
        name = self.name_of(action, instance.name)
        if name in self.done:
            return
        self.done.add(name)
        if action.annotation("hidden") is not None:
            return
        message = self._new(parts, "actions")
        self._preamble(message, "action", name, action.annotations)
        in_tables = any(r.action is action for t in instance.tables for r in t.actions)
        plain = [p for p in action.params if not p.direction and in_tables]
        for number, param in zip(field_ids(plain, self.source), plain, strict=True):
            out = message.child("params")
            out.set("id", number)
            out.set("name", local_name(param))
            add_annotations(out, param.annotations, self.source)
            if not isinstance(param.type, types.EnumType):
                out.set("bitwidth", self.types.width(param.type))
            add_documentation(out, param.annotations)
            if not isinstance(
                types.underlying(param.type), types.BitType | types.BoolType | types.EnumType | types.NewType
            ):
                message_ = f"the control plane cannot give '{param.name}' a value of type {param.type}"
                raise CompileError.at(self.source, param.pos, message_)
            self.types.spec(param.type)
            if isinstance(param.type, types.NewType | types.EnumType):
                out.child("type_name").add("name", param.type.name)

    def _table(self, parts: dict[str, list[Message]], table: tree.TableDecl, instance: Instance) -> None:
        if table.annotation("hidden") is not None:
            return
        self.types.touched = True
        name = join_name(instance.name, local_name(table))
        message = self._new(parts, "tables")
        self._preamble(message, "table", name, table.annotations)
        for number, key in zip(field_ids(table.keys, self.source), table.keys, strict=True):
            if key.match_kind != "selector":
                self._match_field(message.child("match_fields"), key, number, table)
        refs = list(table.actions)
        default = table.default_action
        implicit = default is not None and all(r.action is not default.action for r in refs)
        for ref in refs:
            assert ref.action is not None
            self._action_ref(message, ref.action, ref.annotations, instance)
        if implicit and default is not None and default.action is not None:
            mark = tree.Annotation(table.pos, "defaultonly", "plain")
            self._action_ref(message, default.action, [mark], instance)
        if default is not None and default.action is not None:
            number = self.symbols.id("action", self.name_of(default.action, instance.name))
            if table.default_action_const:
                message.add("const_default_action_id", number)
            initial = message.child("initial_default_action")
            initial.add("action_id", number)
            self._arguments(initial, "arguments", default)
        self._table_properties(parts, message, table, instance)

    def _arguments(self, message: Message, field: str, ref: tree.ActionRef) -> None:
        plain = [b for b in ref.bound if not b.param.direction]
        ids = field_ids([b.param.node for b in plain], self.source)
        for number, bound in zip(ids, plain, strict=True):
            if bound.expr is None:
                continue
            value = bound.expr.value
            if isinstance(value, int):
                out = message.child(field)
                out.add("param_id", number)
                out.add("value", padded(value, self.types.width(bound.param.type) or value.bit_length()))

    def _match_field(self, out: Message, key: tree.KeyElement, number: int, table: tree.TableDecl) -> None:
        name = field_name(key)
        if name is None:
            message = (
                f'this key of the table {table.name} is too complex to have a name; give it one: @name("…")'
            )
            raise CompileError.at(self.source, key.expr.pos, message)
        out.set("id", number)
        out.set("name", name)
        add_annotations(out, key.annotations, self.source)
        out.set("bitwidth", self.types.width(key.expr.type))
        kind = MATCH_TYPES.get(key.match_kind)
        if kind is not None:
            out.add("match_type", Symbol(kind))
        add_documentation(out, key.annotations)
        if kind is None:
            out.add("other_match_type", key.match_kind)
        self.types.add_type_name(out, key.expr.type)

    def _action_ref(
        self,
        message: Message,
        action: tree.ActionDecl,
        annotations: Sequence[tree.Annotation],
        instance: Instance,
    ) -> None:
        out = message.child("action_refs")
        out.set("id", self.symbols.id("action", self.name_of(action, instance.name)))
        add_annotations(out, annotations, self.source)
        names = {a.name for a in annotations}
        if "tableonly" in names and "defaultonly" in names:
            raise CompileError.at(
                self.source, annotations[0].pos, "an action cannot be both @tableonly and @defaultonly"
            )
        if "tableonly" in names:
            out.add("scope", Symbol("TABLE_ONLY"))
        elif "defaultonly" in names:
            out.add("scope", Symbol("DEFAULT_ONLY"))

    def _table_properties(
        self, parts: dict[str, list[Message]], message: Message, table: tree.TableDecl, instance: Instance
    ) -> None:
        size = self._size(table, instance)
        implementation = table.property("implementation")
        if implementation is not None:
            profile = self.property_instance(implementation, instance, table)
            if profile is not None:
                message.add("implementation_id", self.symbols.id("action_profile", profile[0]))
                if isinstance(implementation.expr, tree.Call):
                    self._action_profile(parts, *profile)
        table_name = join_name(instance.name, local_name(table))
        for prop, kind in (("counters", "direct_counter"), ("meters", "direct_meter")):
            found = table.property(prop)
            if found is None:
                continue
            direct = self.property_instance(found, instance, table)
            if direct is not None and EXTERNS.get(direct[1].name) == kind:
                message.add("direct_resource_ids", self.symbols.id(kind, direct[0]))
                out = self._new(parts, kind + "s")
                self._preamble(out, kind, direct[0], direct[3])
                self._unit(out, direct[2])
                out.add("direct_table_id", self.symbols.id("table", table_name))
        message.set("size", size)
        timeout = table.property("support_timeout")
        if timeout is not None and timeout.expr.value is True:
            message.add("idle_timeout_behavior", Symbol("NOTIFY_CONTROL"))
        if table.has_entries and table.entries_const:
            message.add("is_const_table", True)
        if table.entries:
            message.add("has_initial_entries", True)

    def _size(self, table: tree.TableDecl, instance: Instance) -> int:
        prop = table.property("size")
        if prop is None:
            return DEFAULT_TABLE_SIZE
        value = constant(prop.expr, instance)
        if not isinstance(value, int):
            raise CompileError.at(self.source, prop.pos, "the size of a table must be a constant")
        return value or DEFAULT_TABLE_SIZE

    def _unit(self, message: Message, arguments: dict[str, Any]) -> None:
        unit = arguments.get("type")
        spec = message.child("spec")
        if isinstance(unit, types.EnumValue):
            spec.add("unit", Symbol(UNITS.get(unit.name, "UNSPECIFIED")))

    def _extern(self, parts: dict[str, list[Message]], instance: Instance) -> None:
        self.types.touched = self.types.touched or instance.decl is not None
        kind = EXTERNS.get(instance.target.name)
        annotations = () if instance.decl is None else instance.decl.annotations
        if kind is None or kind.startswith("direct_"):
            return
        if kind == "action_profile":
            self._action_profile(parts, instance.name, instance.target, instance.arguments, annotations)
            return
        out = self._new(parts, kind + "s")
        self._preamble(out, kind, instance.name, annotations)
        assert isinstance(instance.type, types.ExternType)
        args = instance.type.args
        index = args[-1] if len(args) == (2 if kind == "register" else 1) else None
        if kind == "register":
            out.add("type_spec", self.types.spec(args[0]))
        else:
            self._unit(out, instance.arguments)
        size = instance.arguments.get("size")
        if not isinstance(size, int):
            pos = instance.decl.pos if instance.decl is not None else 0
            raise CompileError.at(
                self.source, pos, f"the size of the {kind} {instance.name} must be a constant"
            )
        out.set("size", size)
        if index is not None:
            self.types.spec(index)
            name = self.types.name(index)
            if name is not None:
                out.child("index_type_name").add("name", name)

    def _action_profile(
        self,
        parts: dict[str, list[Message]],
        name: str,
        extern: tree.ExternDecl,
        arguments: dict[str, Any],
        annotations: Sequence[tree.Annotation],
    ) -> None:
        out = self._new(parts, "action_profiles")
        self._preamble(out, "action_profile", name, annotations, SELECTOR_ANNOTATIONS)
        for table in sorted(self.profile_tables.get(name, ())):
            out.add("table_ids", self.symbols.id("table", table))
        selector = extern.name == "action_selector"
        out.set("with_selector", selector)
        size = arguments.get("size")
        out.set("size", size if isinstance(size, int) else 0)
        if not selector:
            return
        marks = {a.name: a for a in annotations}
        if "max_group_size" in marks:
            out.set("max_group_size", annotation_number(marks["max_group_size"], self.source))
        if "selector_size_semantics" in marks:
            text = string_of(marks["selector_size_semantics"]).lower()
            if text == "sum_of_weights":
                out.child("sum_of_weights")
            elif text == "sum_of_members":
                members = out.child("sum_of_members")
                if "max_member_weight" in marks:
                    members.set(
                        "max_member_weight", annotation_number(marks["max_member_weight"], self.source)
                    )
            else:
                pos = marks["selector_size_semantics"].pos
                raise CompileError.at(
                    self.source,
                    pos,
                    f'selector_size_semantics is "sum_of_weights" or "sum_of_members", not "{text}"',
                )

    def _value_set(
        self, parts: dict[str, list[Message]], decl: tree.ValueSetDecl, instance: Instance
    ) -> None:
        name = join_name(instance.name, local_name(decl))
        out = self._new(parts, "value_sets")
        self._preamble(out, "value_set", name, decl.annotations)
        assert isinstance(decl.type, types.SetType)
        element = decl.type.element
        if isinstance(element, types.BitType):
            match = out.child("match")
            match.add("id", 1)
            match.set("bitwidth", element.width)
            match.add("match_type", Symbol("EXACT"))
        elif isinstance(element, types.StructType):
            nodes = [f.node for f in element.fields]
            for number, field in zip(field_ids(nodes, self.source), element.fields, strict=True):
                if not isinstance(field.type, types.BitType):
                    message = (
                        f"the members of a value set are structs of bit<W>; '{field.name}' is {field.type}"
                    )
                    raise CompileError.at(self.source, field.node.pos, message)
                match = out.child("match")
                match.set("id", number)
                match.set("name", local_name(field.node))
                add_annotations(match, field.node.annotations, self.source, {"match"})
                match.set("bitwidth", field.type.width)
                mark = field.node.annotation("match")
                kind = "exact" if mark is None else "".join(mark.tokens)
                if kind in MATCH_TYPES:
                    match.add("match_type", Symbol(MATCH_TYPES[kind]))
                add_documentation(match, field.node.annotations)
                if kind not in MATCH_TYPES:
                    match.add("other_match_type", kind)
        elif isinstance(element, types.SerEnumType):
            for number, member in enumerate(element.decl.members, 1):
                match = out.child("match")
                match.add("id", number)
                match.set("name", local_name(member))
                match.set("bitwidth", types.width_bits(element) or 0)
                match.add("match_type", Symbol("EXACT"))
        else:
            message = (
                f"the control plane knows value sets of bit<W>, structs of bit<W> and enums, not of {element}"
            )
            raise CompileError.at(self.source, decl.pos, message)
        size = constant(decl.size, instance)
        out.set("size", size if isinstance(size, int) else 0)

    def _digest_message(self, parts: dict[str, list[Message]], name: str, type_: types.Type) -> None:
        out = self._new(parts, "digests")
        self._preamble(out, "digest", name, ())
        out.add("type_spec", self.types.spec(type_))

    def _controller_header(self, parts: dict[str, list[Message]], header: tree.RecordDecl) -> None:
        if header.annotation("hidden") is not None:
            return
        mark = header.annotation("controller_header")
        assert mark is not None and isinstance(header.type, types.HeaderType)
        name = string_of(mark)
        out = self._new(parts, "controller_packet_metadata")
        number = self.symbols.id("controller_header", local_name(header))
        preamble(out, number, name, name, header.annotations, self.source)
        fields = flatten(header.type)
        ids = allocate([_id_in(a, self.source) for _, a, _ in fields])
        for number, (field, marks, type_) in zip(ids, fields, strict=True):
            if any(a.name == "hidden" for a in marks):
                continue
            metadata = out.child("metadata")
            metadata.set("id", number)
            metadata.set("name", field)
            add_annotations(metadata, marks, self.source)
            metadata.set("bitwidth", self.types.width(type_))
            self.types.add_type_name(metadata, type_)


def constant(expr: tree.Expr, instance: Instance) -> Any:
    """The value of an expression inside an instance."""
    from compiler import constants

    return constants.fold(expr, instance.environment)


def _id_in(annotations: Sequence[tree.Annotation], source: Any) -> int | None:
    for annotation in annotations:
        if annotation.name == "id":
            return annotation_number(annotation, source)
    return None


def field_ids(nodes: Sequence[tree.Decl | tree.KeyElement], source: Any) -> list[int]:
    """Ids of key fields, action parameters or struct fields: `@id`, else 1, 2, 3… by position."""
    wanted = [id_annotation(n, source) for n in nodes]
    used: set[int] = set()
    for node, number in zip(nodes, wanted, strict=True):
        if number is None:
            continue
        if number == 0 or number in used:
            reason = "0 is not an id" if number == 0 else f"@id({number}) is used twice"
            raise CompileError.at(source, node.pos, reason)
        used.add(number)
    return allocate(wanted)


def allocate(wanted: Sequence[int | None]) -> list[int]:
    """Fills the gaps: an element without a number gets the next free one at or after its turn."""
    used = {w for w in wanted if w is not None}
    found: list[int] = []
    index = 1
    for number in wanted:
        if number is not None:
            index += 1
            found.append(number)
            continue
        while index in used:
            index += 1
        used.add(index)
        found.append(index)
    return found


def _pairs(annotation: tree.Annotation) -> Iterator[tuple[str, Any]]:
    """Key and value of `@a[k = v]` and `@a(k = v, …)`."""
    if annotation.form == "pairs":
        for pair in annotation.pairs:
            yield pair.name, pair.expr.value
        return
    tokens = list(annotation.tokens)
    for i in range(0, len(tokens) - 2, 4):
        key, equals, value = tokens[i : i + 3]
        if equals == "=":
            yield key, value[1:-1] if value.startswith('"') else (int(value, 0) if value.isdigit() else value)
