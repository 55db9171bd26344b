"""Types in P4Info: data type specifications, and the named types that a program's control plane has to know."""

from __future__ import annotations

from dataclasses import dataclass

from compiler import tree, types
from compiler.errors import CompileError
from compiler.instances import local_name
from compiler.p4info_annotations import add_annotations
from compiler.source import Source
from compiler.textproto import Message
from compiler.types import Type


@dataclass(frozen=True)
class Translation:
    """`@p4runtime_translation("uri", bit<W>)`: width 0 means a string."""

    uri: str
    width: int


def translation_of(decl: tree.Decl, source: Source) -> Translation | None:
    """What `@p4runtime_translation` on a `type` declaration says."""
    annotation = decl.annotation("p4runtime_translation")
    if annotation is None:
        return None
    tokens = list(annotation.tokens)
    if len(tokens) >= 3 and tokens[0].startswith('"') and tokens[1] == ",":
        kind = tokens[2:]
        if kind == ["string"]:
            return Translation(tokens[0][1:-1], 0)
        if len(kind) == 1 and kind[0].isdigit():
            return Translation(tokens[0][1:-1], int(kind[0]))
        if len(kind) == 4 and kind[0] == "bit" and kind[2].isdigit():
            return Translation(tokens[0][1:-1], int(kind[2]))
    message = (
        '@p4runtime_translation needs a URI and bit<W> or string, as in @p4runtime_translation("", bit<32>)'
    )
    raise CompileError.at(source, annotation.pos, message)


class TypeTable:
    """Collects the `type_info` part of a P4Info."""

    def __init__(self, source: Source, errors: tuple[str, ...]) -> None:
        self.source = source
        self.errors = errors
        self.structs: dict[str, Message] = {}
        self.headers: dict[str, Message] = {}
        self.header_unions: dict[str, Message] = {}
        self.enums: dict[str, Message] = {}
        self.serializable_enums: dict[str, Message] = {}
        self.new_types: dict[str, Message] = {}
        self.error_used = False
        self.touched = False
        """Something was there that could have had a named type; then `type_info` is written even when it is empty."""

    def width(self, type_: Type) -> int:
        """Bits of a value as P4Runtime sees it: the controller's width for a translated type, 0 for a string."""
        if isinstance(type_, types.NewType):
            translation = translation_of(type_.decl, self.source)
            if translation is not None:
                return translation.width
        return types.width_bits(type_) or 0

    def name(self, type_: Type) -> str | None:
        """The name of a `type` type, else None."""
        return type_.name if isinstance(type_, types.NewType) else None

    def add_type_name(self, message: Message, type_: Type) -> None:
        """Sets `type_name` for a named type and registers the type."""
        self.spec(type_)
        name = self.name(type_)
        if name is not None:
            message.child("type_name").add("name", name)

    # ------------------------------------------------------------- specifications

    def spec(self, type_: Type) -> Message:
        """P4DataTypeSpec of a type; registers the named types that it mentions."""
        self.touched = True
        spec = Message()
        if isinstance(type_, types.BitType | types.VarbitType):
            bits(spec.child("bitstring"), type_)
        elif isinstance(type_, types.BoolType):
            spec.child("bool")
        elif isinstance(type_, types.ErrorType):
            self.error_used = True
            spec.child("error")
        elif isinstance(type_, types.TupleType):
            members = spec.child("tuple")
            for element in type_.elements:
                members.add("members", self.spec(element))
        elif isinstance(type_, types.StackType):
            self._stack(spec, type_)
        elif isinstance(type_, types.StructType):
            spec.child("struct").add("name", self._struct(type_))
        elif isinstance(type_, types.HeaderType):
            spec.child("header").add("name", self._header(type_))
        elif isinstance(type_, types.HeaderUnionType):
            spec.child("header_union").add("name", self._union(type_))
        elif isinstance(type_, types.EnumType):
            spec.child("enum").add("name", self._enum(type_))
        elif isinstance(type_, types.SerEnumType):
            spec.child("serializable_enum").add("name", self._ser_enum(type_))
        elif isinstance(type_, types.NewType):
            spec.child("new_type").add("name", self._new_type(type_))
        return spec

    def _stack(self, spec: Message, type_: types.StackType) -> None:
        if isinstance(type_.element, types.HeaderType):
            stack = spec.child("header_stack")
            stack.child("header").add("name", self._header(type_.element))
            stack.set("size", type_.size)
        elif isinstance(type_.element, types.HeaderUnionType):
            stack = spec.child("header_union_stack")
            stack.child("header_union").add("name", self._union(type_.element))
            stack.set("size", type_.size)
        else:
            members = spec.child("tuple")
            for _ in range(type_.size):
                members.add("members", self.spec(type_.element))

    def _struct(self, type_: types.StructType) -> str:
        name = local_name(type_.decl)
        if name not in self.structs:
            message = self.structs[name] = Message()
            for field in type_.fields:
                member = message.child("members")
                member.add("name", local_name(field.node))
                member.add("type_spec", self.spec(field.type))
        return name

    def _header(self, type_: types.HeaderType) -> str:
        name = local_name(type_.decl)
        if name not in self.headers:
            message = self.headers[name] = Message()
            for field_name, _, field_type in flatten(type_):
                member = message.child("members")
                member.add("name", field_name)
                bits(member.child("type_spec"), field_type)
        return name

    def _union(self, type_: types.HeaderUnionType) -> str:
        name = local_name(type_.decl)
        if name not in self.header_unions:
            message = self.header_unions[name] = Message()
            for field in type_.fields:
                assert isinstance(field.type, types.HeaderType)
                member = message.child("members")
                member.add("name", local_name(field.node))
                member.child("header").add("name", self._header(field.type))
        return name

    def _enum(self, type_: types.EnumType) -> str:
        name = local_name(type_.decl)
        if name not in self.enums:
            message = self.enums[name] = Message()
            for member in type_.decl.members:
                message.child("members").add("name", local_name(member))
        return name

    def _ser_enum(self, type_: types.SerEnumType) -> str:
        name = local_name(type_.decl)
        if name not in self.serializable_enums:
            message = self.serializable_enums[name] = Message()
            width = types.width_bits(type_) or 0
            message.child("underlying_type").set("bitwidth", width)
            for node in type_.decl.members:
                member = message.child("members")
                member.add("name", local_name(node))
                member.add("value", padded(type_.members[node.name], width))
        return name

    def _new_type(self, type_: types.NewType) -> str:
        name = type_.name
        if name not in self.new_types:
            message = self.new_types[name] = Message()
            base = types.underlying(type_)
            while isinstance(base, types.NewType):
                base = types.underlying(base)
            translation = translation_of(type_.decl, self.source)
            if translation is None:
                message.add("original_type", self.spec(base))
            else:
                translated = message.child("translated_type")
                translated.set("uri", translation.uri)
                if translation.width:
                    translated.add("sdn_bitwidth", translation.width)
                else:
                    translated.child("sdn_string")
            add_annotations(message, type_.decl.annotations, self.source, {"p4runtime_translation"})
        return name

    def write(self, info: Message) -> None:
        """Adds `type_info` to a P4Info."""
        message = Message()
        for field, table in (
            ("structs", self.structs),
            ("headers", self.headers),
            ("header_unions", self.header_unions),
            ("enums", self.enums),
        ):
            _map(message, field, table)
        if self.error_used:
            errors = message.child("error")
            for error in self.errors:
                errors.add("members", error)
        _map(message, "serializable_enums", self.serializable_enums)
        _map(message, "new_types", self.new_types)
        if self.touched:
            info.add("type_info", message)


def _map(message: Message, field: str, table: dict[str, Message]) -> None:
    for name in sorted(table):
        entry = message.child(field)
        entry.add("key", name)
        entry.add("value", table[name])


def bits(message: Message, type_: Type) -> None:
    """Fills a P4BitstringLikeTypeSpec."""
    base = types.underlying(type_)
    if isinstance(base, types.VarbitType):
        message.child("varbit").set("max_bitwidth", base.width)
    elif isinstance(base, types.BitType):
        message.child("int" if base.signed else "bit").set("bitwidth", base.width)


def flatten(type_: types.RecordType) -> list[tuple[str, list[tree.Annotation], Type]]:
    """The scalar fields of a header: (control-plane name, annotations, type), structs inside it opened up."""
    found: list[tuple[str, list[tree.Annotation], Type]] = []
    for field in type_.fields:
        if isinstance(field.type, types.StructType):
            for name, annotations, inner in flatten(field.type):
                known = {a.name for a in annotations}
                merged = [*annotations, *(a for a in field.node.annotations if a.name not in known)]
                found.append((f"{field.name}.{name}", merged, inner))
        else:
            found.append((local_name(field.node), list(field.node.annotations), field.type))
    return found


def padded(value: int, width: int) -> bytes:
    """`value` in as many bytes as `width` bits need (at least one), most significant first."""
    count = max(1, (width + 7) // 8)
    return (value & ((1 << (8 * count)) - 1)).to_bytes(count, "big")
