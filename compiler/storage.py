"""Where values live on the switch: header types, header instances, stacks, and the cells of the `scalars` metadata."""

from __future__ import annotations

from compiler import ir, types
from compiler.ir import Scalar, bits
from compiler.values import Header, Record, Stack, Union, Value

ERROR_WIDTH = 32
ENUM_WIDTH = 32


class NoStorage(Exception):
    """A type that BMv2 cannot hold; the text says why. `pos`: where the type or field is declared, -1 unknown."""

    def __init__(self, text: str, pos: int = -1) -> None:
        super().__init__(text)
        self.pos = pos


def scalar_of(type_: types.Type) -> Scalar | None:
    """The cell type of a P4 type, None for aggregates and compile-time types."""
    type_ = types.underlying(type_)
    if isinstance(type_, types.BitType):
        return bits(type_.width, type_.signed)
    if isinstance(type_, types.BoolType):
        return ir.BOOL
    if isinstance(type_, types.ErrorType):
        return bits(ERROR_WIDTH)
    if isinstance(type_, types.EnumType):
        return bits(ENUM_WIDTH)
    if isinstance(type_, types.VarbitType):
        return Scalar("varbit", type_.width)
    return None


class Storage:
    """Allocates storage in a low-level program."""

    def __init__(self, unit: ir.Unit) -> None:
        self.unit = unit
        self.scalars = ir.HeaderLayout("scalars_0", [])
        unit.layouts.append(self.scalars)
        unit.instances.append(ir.Instance("scalars", self.scalars, True))
        self._layouts: dict[types.Type, ir.HeaderLayout] = {}
        self._layout_names = {"scalars_0", "standard_metadata"}
        self._cells: set[str] = set()
        self._instances = {"scalars", "standard_metadata"}

    # ------------------------------------------------------------------ names

    @staticmethod
    def _unique(base: str, used: set[str]) -> str:
        name, count = base, 0
        while name in used:
            name = f"{base}_{count}"
            count += 1
        used.add(name)
        return name

    # ------------------------------------------------------------------ allocation

    def cell(self, name: str, scalar: Scalar) -> ir.Field:
        """A new scalar (a varbit gets a metadata instance of its own)."""
        if scalar.kind == "varbit":
            layout = self._varbit_layout(scalar)
            instance = self._unique(name, self._instances)
            self.unit.instances.append(ir.Instance(instance, layout, True))
            return ir.Field(instance, "field", scalar)
        name = self._unique(name, self._cells)
        self.scalars.fields.append((name, scalar))
        return ir.Field("scalars", name, scalar)

    def _varbit_layout(self, scalar: Scalar) -> ir.HeaderLayout:
        key = types.VarbitType(scalar.width)
        layout = self._layouts.get(key)
        if layout is None:
            layout = ir.HeaderLayout(f"$varbit{scalar.width}", [("field", scalar)])
            self._layouts[key] = layout
            self.unit.layouts.append(layout)
        return layout

    def layout(self, type_: types.HeaderType) -> ir.HeaderLayout:
        """The header type of a P4 header type."""
        found = self._layouts.get(type_)
        if found is None:
            fields: list[tuple[str, Scalar]] = []
            self._flatten(type_, "", fields)
            if sum(1 for _, scalar in fields if scalar.kind == "varbit") > 1:
                raise NoStorage(
                    f"header {type_} has more than one varbit field; the target takes one", type_.decl.pos
                )
            size = sum(scalar.width for _, scalar in fields)
            if size % 8:
                raise NoStorage(
                    f"the fields of header {type_} add up to {size} bits; the target takes whole bytes: "
                    f"add a field of {-size % 8} bits",
                    type_.decl.pos,
                )
            name = self._unique(type_.name, self._layout_names)
            found = self._layouts[type_] = ir.HeaderLayout(name, fields)
            self.unit.layouts.append(found)
        return found

    def _flatten(self, type_: types.RecordType, prefix: str, out: list[tuple[str, Scalar]]) -> None:
        for field in type_.fields:
            inner = types.underlying(field.type)
            scalar = scalar_of(inner)
            if scalar is not None:
                out.append((prefix + field.name, scalar))
            elif isinstance(inner, types.StructType):
                self._flatten(inner, f"{prefix}{field.name}.", out)
            else:
                raise NoStorage(
                    f"field {field.name} of header {type_} has type {field.type}; the target takes bit<W>, int<W>, "
                    "varbit<W>, bool, enums with a width, and structs of these",
                    field.node.pos,
                )

    def header(self, name: str, type_: types.HeaderType) -> Header:
        """A new header instance."""
        layout = self.layout(type_)
        name = self._unique(name, self._instances)
        self.unit.instances.append(ir.Instance(name, layout, False))
        return Header(type_, ir.HeaderRef(name), layout)

    def _union(self, name: str, type_: types.HeaderUnionType) -> Union:
        name = self._unique(name, self._instances)
        members: dict[str, Header] = {}
        for field in type_.fields:
            if not isinstance(field.type, types.HeaderType):
                raise NoStorage(f"member {field.name} of header union {type_} is no header")
            members[field.name] = self.header(f"{name}.{field.name}", field.type)
        layouts = [(member, header.layout) for member, header in members.items()]
        self.unit.unions.append(ir.UnionLayout(name, type_.name, layouts))
        return Union(type_, name, members)

    def _stack(self, name: str, type_: types.StackType) -> Stack:
        name = self._unique(name, self._instances)
        elements: list[Value] = [self.new(f"{name}[{i}]", type_.element) for i in range(type_.size)]
        if isinstance(type_.element, types.HeaderType):
            layout = self.layout(type_.element)
            self.unit.stacks.append(ir.StackLayout(name, layout, type_.size))
            return Stack(type_, name, elements, layout)
        self.unit.union_stacks.append(ir.UnionStackLayout(name, str(type_.element), type_.size))
        return Stack(type_, name, elements, None)

    def new(self, name: str, type_: types.Type) -> Value:
        """Storage for a value of `type_`; parts are called `name.field`, `name[i]`."""
        type_ = types.underlying(type_)
        scalar = scalar_of(type_)
        if scalar is not None:
            return self.cell(name, scalar)
        if isinstance(type_, types.HeaderType):
            return self.header(name, type_)
        if isinstance(type_, types.HeaderUnionType):
            return self._union(name, type_)
        if isinstance(type_, types.RecordType):
            return Record(type_, {f.name: self.new(f"{name}.{f.name}", f.type) for f in type_.fields})
        if isinstance(type_, types.TupleType):
            parts = {str(i): self.new(f"{name}.{i}", t) for i, t in enumerate(type_.elements)}
            return Record(type_, parts)
        if isinstance(type_, types.StackType):
            if type_.is_header_stack:
                return self._stack(name, type_)
            parts = {str(i): self.new(f"{name}[{i}]", type_.element) for i in range(type_.size)}
            return Record(type_, parts)
        raise NoStorage(f"a value of type {type_} cannot be stored on the switch")

    def is_metadata(self, instance: str) -> bool:
        """Whether an instance holds metadata, not a header."""
        return any(i.name == instance and i.metadata for i in self.unit.instances)

    # ------------------------------------------------------------------ the pipeline's own parameters

    def headers_struct(self, type_: types.StructType) -> Record:
        """The `headers` parameter: instances are called after their fields."""
        return Record(type_, {f.name: self._top(f.name, f.type) for f in type_.fields})

    def _top(self, name: str, type_: types.Type) -> Value:
        return self.new(name, type_)

    def standard_metadata(self, type_: types.StructType, aliases: list[tuple[str, str]]) -> Record:
        """The `standard_metadata` parameter: one metadata instance with the fields of the architecture's struct."""
        layout = ir.HeaderLayout("standard_metadata", [], aliases)
        fields: dict[str, Value] = {}
        for field in type_.fields:
            scalar = scalar_of(field.type)
            if scalar is None:
                raise NoStorage(f"standard metadata field {field.name} has type {field.type}")
            layout.fields.append((field.name, scalar))
            fields[field.name] = ir.Field("standard_metadata", field.name, scalar)
        self.unit.layouts.append(layout)
        self.unit.instances.append(ir.Instance("standard_metadata", layout, True))
        return Record(type_, fields)


def header_field(header: Header, name: str, type_: types.Type) -> Value:
    """Field `name` (of P4 type `type_`) of a header."""
    return _header_part(header, name, types.underlying(type_))


def _header_part(header: Header, path: str, type_: types.Type) -> Value:
    if isinstance(type_, types.StructType):
        parts = {
            f.name: _header_part(header, f"{path}.{f.name}", types.underlying(f.type)) for f in type_.fields
        }
        return Record(type_, parts)
    scalar = scalar_of(type_)
    if scalar is None:
        raise NoStorage(f"header field {path} has type {type_}")
    if header.ref.index is None:
        return ir.Field(header.ref.name, path, scalar)
    offset = [name for name, _ in header.layout.fields].index(path)
    return ir.ElementField(header.ref.name, header.ref.index, path, offset, scalar)
