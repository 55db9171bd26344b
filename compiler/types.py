"""The types of P4_16 values, as the checker resolves them.

A type is an immutable value. Simple types (`bit<8>`, `bool`, `tuple<…>`, stacks, `list<…>`) compare by structure;
declared
types (headers, structs, enums, externs, controls…) compare by the declaration they come from and their type
arguments, so
two structs with equal fields are different types, as the language says. `typedef` is transparent: it leaves no
trace here.
`type T = …` makes a `NewType`.

Back ends meet these classes as `expression.type`. A type that still holds a `TypeVar` occurs only inside the body
of a generic
function and in the declarations of generic externs; `substitute` replaces the variables once a call has bound them
(`Call.type_arguments`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler import tree


class Type:
    """Any type. `str(type)` is P4 source for it."""

    __slots__ = ()

    @property
    def name_or_text(self) -> str:
        return str(self)


# --------------------------------------------------------------------------- scalars


@dataclass(frozen=True)
class UnknownType(Type):
    """The type of something that already has an error; accepted everywhere so that one mistake gives one message."""

    def __str__(self) -> str:
        return "<unknown>"


@dataclass(frozen=True)
class VoidType(Type):
    """`void`: what a call without a result has."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True)
class DontCareType(Type):
    """`_` as a type argument or the type of a `_` argument."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class BoolType(Type):
    """`bool`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class StringType(Type):
    """`string`, compile-time only."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True)
class ErrorType(Type):
    """`error`; its members are `TypedProgram.errors`, in declaration order."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True)
class MatchKindType(Type):
    """`match_kind`; its members are `TypedProgram.match_kinds`."""

    def __str__(self) -> str:
        return "match_kind"


@dataclass(frozen=True)
class InfIntType(Type):
    """`int`: arbitrary precision, compile-time only. An expression that still has it is a compile-time constant."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True)
class BitType(Type):
    """`bit<width>` (unsigned) or `int<width>` (`signed`, two's complement). Width is in bits, 0 or more."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"int<{self.width}>" if self.signed else f"bit<{self.width}>"


@dataclass(frozen=True)
class VarbitType(Type):
    """`varbit<width>`: at most `width` bits."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


UNKNOWN = UnknownType()
VOID = VoidType()
DONT_CARE = DontCareType()
BOOL = BoolType()
STRING = StringType()
ERROR = ErrorType()
MATCH_KIND = MatchKindType()
INT = InfIntType()

_BITS: dict[tuple[int, bool], BitType] = {}


def bit(width: int, signed: bool = False) -> BitType:
    """The one `bit<width>` or `int<width>` object."""
    found = _BITS.get((width, signed))
    if found is None:
        found = _BITS[(width, signed)] = BitType(width, signed)
    return found


# --------------------------------------------------------------------------- structured


@dataclass(frozen=True)
class TupleType(Type):
    """`tuple<…>`; also the type of `{a, b}` where nothing says what it should become."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True)
class StructLiteralType(TupleType):
    """The type of `{a = x, b = y}` where nothing says what it should become: a tuple whose elements have names."""

    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            "struct {" + " ".join(f"{t} {n};" for n, t in zip(self.names, self.elements, strict=True)) + "}"
        )


@dataclass(frozen=True)
class ListType(Type):
    """`list<element>`: a compile-time sequence for extern constructors."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class SetType(Type):
    """The type of a keyset expression (`a &&& b`, `a .. b`, value sets): a set of `element`."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(frozen=True)
class StackType(Type):
    """`element[size]`: a header (or header union) stack; an array when the element is any other type."""

    element: Type
    size: int

    @property
    def is_header_stack(self) -> bool:
        """Whether `next`, `last`, `push_front`… exist."""
        return isinstance(self.element, (HeaderType, HeaderUnionType))

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class Field:
    """A field of a header, struct or union."""

    name: str
    type: Type
    node: tree.StructField = field(compare=False, repr=False)
    """Its declaration (annotations, position)."""


class DeclaredType(Type):
    """A type that a declaration introduces. Equality: same declaration, same type arguments."""

    __slots__ = ("args", "decl", "name")

    def __init__(self, name: str, decl: Any, args: tuple[Type, ...] = ()) -> None:
        self.name = name
        self.decl = decl
        """The node in `compiler.tree` that declares it."""
        self.args = args
        """Type arguments when the declaration is generic and specialised, else ()."""

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other) and self.decl is other.decl and self.args == other.args
        )

    def __hash__(self) -> int:
        return hash((id(self.decl), self.args))

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.args))}>" if self.args else self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class RecordType(DeclaredType):
    """What has named fields: the base of `HeaderType`, `StructType` and `HeaderUnionType`."""

    __slots__ = ("_by_name", "_fields", "_make")

    def __init__(
        self,
        name: str,
        decl: Any,
        args: tuple[Type, ...] = (),
        make: Callable[[RecordType], tuple[Field, ...]] | None = None,
    ) -> None:
        super().__init__(name, decl, args)
        self._make = make
        self._fields: tuple[Field, ...] | None = None
        self._by_name: dict[str, Field] | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields in declaration order, their types resolved and specialised."""
        if self._fields is None:
            self._fields = ()
            self._fields = self._make(self) if self._make else ()
        return self._fields

    def field(self, name: str) -> Field | None:
        """The field called `name`, or None."""
        if self._by_name is None:
            self._by_name = {f.name: f for f in self.fields}
        return self._by_name.get(name)


class HeaderType(RecordType):
    """`header`: fields plus a validity bit."""

    __slots__ = ()


class StructType(RecordType):
    """`struct`."""

    __slots__ = ()


class HeaderUnionType(RecordType):
    """`header_union`: at most one of its headers is valid."""

    __slots__ = ()


class EnumType(DeclaredType):
    """`enum` without representation. Values are `EnumValue`."""

    __slots__ = ("members",)

    def __init__(self, name: str, decl: Any, members: tuple[str, ...]) -> None:
        super().__init__(name, decl)
        self.members = members


class SerEnumType(DeclaredType):
    """`enum bit<N>`: members with integer values, of type `underlying`. Values are plain ints."""

    __slots__ = ("members", "underlying")

    def __init__(self, name: str, decl: Any, underlying: Type) -> None:
        super().__init__(name, decl)
        self.underlying = underlying
        self.members: dict[str, int] = {}


class NewType(DeclaredType):
    """`type underlying name`: a distinct type with the representation of `underlying`."""

    __slots__ = ("underlying",)

    def __init__(self, name: str, decl: Any, underlying: Type) -> None:
        super().__init__(name, decl)
        self.underlying = underlying


class TypeVar(DeclaredType):
    """A type parameter of a generic declaration."""

    __slots__ = ()


# --------------------------------------------------------------------------- things with parameters


@dataclass(frozen=True)
class ParamType:
    """A parameter as a caller sees it."""

    name: str
    direction: str
    """`in`, `out`, `inout`, or `` (directionless: compile-time, or control-plane for an action)."""
    type: Type
    optional: bool
    """Annotated `@optional`: may be left out."""
    default: tree.Expr | None = field(compare=False, repr=False)
    node: tree.Param = field(compare=False, repr=False)


@dataclass(frozen=True)
class FunctionType(Type):
    """A function, extern function, extern method, constructor or action."""

    name: str
    type_params: tuple[TypeVar, ...]
    result: Type
    params: tuple[ParamType, ...]

    def __str__(self) -> str:
        params = ", ".join(f"{p.direction} {p.type} {p.name}".strip() for p in self.params)
        generics = f"<{', '.join(p.name for p in self.type_params)}>" if self.type_params else ""
        return f"{self.result} {self.name}{generics}({params})"


@dataclass(frozen=True)
class ActionType(FunctionType):
    """An action: `result` is void."""


class ExternType(DeclaredType):
    """An extern object type. Methods are in `decl.methods` (unspecialised); `args` binds `decl.type_params`."""

    __slots__ = ()


class ApplicableType(DeclaredType):
    """A parser or control type, or the type of a parser or control declared with a body."""

    __slots__ = ("params",)

    def __init__(self, name: str, decl: Any, args: tuple[Type, ...], params: tuple[ParamType, ...]) -> None:
        super().__init__(name, decl, args)
        self.params = params
        """Parameters of `apply`, specialised."""


class ParserType(ApplicableType):
    """`parser`."""

    __slots__ = ()


class ControlType(ApplicableType):
    """`control`."""

    __slots__ = ()


class PackageType(ApplicableType):
    """`package`; `params` are those of the constructor."""

    __slots__ = ()


class TableType(DeclaredType):
    """A table; `decl` is the `tree.TableDecl`."""

    __slots__ = ()


class ApplyResultType(DeclaredType):
    """What `table.apply()` returns: members `hit` and `miss` (bool), `action_run` (`ActionRunType`). `decl` is the
    table."""

    __slots__ = ()


class ActionRunType(DeclaredType):
    """The type of `table.apply().action_run`, for `switch`. `decl` is the table."""

    __slots__ = ()


class StateType(Type):
    """A parser state's name."""

    __slots__ = ()

    def __str__(self) -> str:
        return "state"


STATE = StateType()


@dataclass(frozen=True)
class TypeType(Type):
    """An expression that names a type (`E` in `E.member`, `C` in `C.apply()`), or a constructor."""

    of: Type

    def __str__(self) -> str:
        return f"type {self.of}"


# --------------------------------------------------------------------------- values that are not int, bool, str


@dataclass(frozen=True)
class EnumValue:
    """A member of an enum without representation."""

    type: EnumType
    name: str


@dataclass(frozen=True)
class ErrorValue:
    """A member of `error`."""

    name: str


@dataclass(frozen=True)
class MatchKindValue:
    """A member of `match_kind`."""

    name: str


# --------------------------------------------------------------------------- questions


def substitute(type_: Type, binding: Mapping[TypeVar, Type]) -> Type:
    """`type_` with every type variable in `binding` replaced."""
    if not binding:
        return type_
    if isinstance(type_, TypeVar):
        return binding.get(type_, type_)
    if isinstance(type_, TupleType):
        return TupleType(tuple(substitute(e, binding) for e in type_.elements))
    if isinstance(type_, ListType):
        return ListType(substitute(type_.element, binding))
    if isinstance(type_, SetType):
        return SetType(substitute(type_.element, binding))
    if isinstance(type_, StackType):
        return StackType(substitute(type_.element, binding), type_.size)
    if isinstance(type_, FunctionType):
        return type(type_)(
            type_.name,
            type_.type_params,
            substitute(type_.result, binding),
            tuple(substitute_param(p, binding) for p in type_.params),
        )
    if isinstance(type_, DeclaredType) and type_.args:
        args = tuple(substitute(a, binding) for a in type_.args)
        if args == type_.args:
            return type_
        if isinstance(type_, RecordType):
            return type(type_)(type_.name, type_.decl, args, type_._make)
        if isinstance(type_, ApplicableType):
            return type(type_)(
                type_.name, type_.decl, args, tuple(substitute_param(p, binding) for p in type_.params)
            )
        return type(type_)(type_.name, type_.decl, args)
    return type_


def substitute_param(param: ParamType, binding: Mapping[TypeVar, Type]) -> ParamType:
    """`param` with its type substituted."""
    if not binding:
        return param
    new = substitute(param.type, binding)
    if new is param.type:
        return param
    return ParamType(param.name, param.direction, new, param.optional, param.default, param.node)


def agrees(type_: Type, pattern: Type) -> bool:
    """Whether `type_` is `pattern`, `_` in the pattern standing for any type."""
    if type_ == pattern or isinstance(pattern, DontCareType):
        return True
    if isinstance(type_, ParserType | ControlType) and type(type_) is type(pattern):
        assert isinstance(pattern, ApplicableType)
        return applicable_agrees(type_, pattern)
    if isinstance(type_, TupleType) and isinstance(pattern, TupleType):
        return len(type_.elements) == len(pattern.elements) and all(
            map(agrees, type_.elements, pattern.elements)
        )
    if isinstance(type_, ListType) and isinstance(pattern, ListType):
        return agrees(type_.element, pattern.element)
    if isinstance(type_, StackType) and isinstance(pattern, StackType):
        return type_.size == pattern.size and agrees(type_.element, pattern.element)
    if isinstance(type_, DeclaredType) and type(type_) is type(pattern):
        assert isinstance(pattern, DeclaredType)
        same = type_.decl is pattern.decl and len(type_.args) == len(pattern.args)
        return same and all(map(agrees, type_.args, pattern.args))
    return False


def applicable_agrees(have: ApplicableType, want: ApplicableType) -> bool:
    """Whether a parser or control of type `have` can stand where one of type `want` is asked for: parameters of the
    same types and directions; more or fewer only where they can be left out."""
    if any(not p.optional and p.default is None for p in want.params[len(have.params) :]):
        return False
    for mine, asked in zip(have.params, want.params, strict=False):
        if mine.direction != asked.direction or not agrees(mine.type, asked.type):
            return False
    return all(p.optional or p.default is not None for p in have.params[len(want.params) :])


def underlying(type_: Type) -> Type:
    """What represents a value of `type_` at run time: looks through `type` and serialisable enums."""
    while isinstance(type_, NewType | SerEnumType):
        type_ = type_.underlying
    return type_


def width_bits(type_: Type) -> int | None:
    """Bits that a value of `type_` takes on the wire (varbit: its maximum), or None where it has no fixed width."""
    type_ = underlying(type_)
    if isinstance(type_, BitType | VarbitType):
        return type_.width
    if isinstance(type_, BoolType):
        return 1
    if isinstance(type_, TupleType):
        return _sum(type_.elements)
    if isinstance(type_, HeaderUnionType):
        widths = [width_bits(f.type) for f in type_.fields]
        return None if any(w is None for w in widths) else max((w or 0 for w in widths), default=0)
    if isinstance(type_, RecordType):
        return _sum(tuple(f.type for f in type_.fields))
    if isinstance(type_, StackType):
        element = width_bits(type_.element)
        return None if element is None else element * type_.size
    return None


def _sum(parts: tuple[Type, ...]) -> int | None:
    total = 0
    for part in parts:
        width = width_bits(part)
        if width is None:
            return None
        total += width
    return total
