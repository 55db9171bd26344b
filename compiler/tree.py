"""The P4_16 tree: one class per construct. The parser builds it, the checker completes it in place.

How to read the typed tree (the contract with everything behind `compiler.typecheck.check`)
------------------------------------------------------------------------------------------
`check()` either raises `CompileError` or returns a `TypedProgram` in which all of this holds.

Positions. `node.pos` is an offset into the preprocessed text; `program.source.locate(node.pos)` gives file, line,
column (`compiler.source`). To report something unsupported: `raise CompileError.at(program.source, node.pos, "…")`
(`compiler.errors`).

Expressions. `expr.type` is a `compiler.types.Type`, never `UNKNOWN`. `expr.value` is the folded compile-time value,
or None when the value is not known at compile time:  int for `bit`, `int`, infinite `int`, serialisable enums and
new types of these; bool; str; `types.EnumValue`; `types.ErrorValue`, `types.MatchKindValue`; a tuple of values for
constant structs, tuples, headers and lists. Values are already wrapped to the type's width (signed types: negative
ints). An infinite-precision `int` constant that meets a `bit<N>` has been wrapped into an implicit `Cast`, so
operands of `+ - * & | ^ == < …`, both sides of an assignment, arguments and parameters, and keysets against their
keys have equal types. Shift amounts keep their own type. A constructor parameter of a parser or control has `value`
None, though it is compile-time known once instantiated: `compiler.constants.fold(expr, environment)` folds with
such bindings (`{param_node: value}`).

Implicit casts are `Cast(implicit=True)` nodes. `{…}` literals have taken their target type: a `ListExpr` or
`StructExpr` whose `type` is a struct, header, stack, tuple or list has elements already converted to the fields'
types (a `StructExpr`'s `fields` stay in source order; `...` gives defaults for what is missing: zero, false, first
enum member, invalid header). Where nothing gave a target (an argument of a bare type variable), the type is a
`TupleType`.

Names. `Name.decl` is the declaration node: `VarDecl`, `ConstDecl`, `Param`, `InstanceDecl`, `TableDecl`,
`ActionDecl`, `FunctionDecl`, `ExternFunction`, `ValueSetDecl`, `StateDecl`. `TypeExpr` stands where a type is used
as a value prefix (`E.member`, `error.NoMatch`, `C.apply(…)`, `C(…)`); look at its `type.of`.

Members. `Member.kind` says what `expr.name` is:
  `field`          struct/header/union field (`expr.type` is a RecordType), or `hit`, `miss`, `action_run` of `apply()`
  `enum` `error`   a constant; `value` holds it
  `next` `last` `lastIndex` `size`   of a header stack
  `method`         only as the callee of a `Call`

Calls. `Call.kind` says what is called, `Call.target` which declaration, `Call.bound` the arguments in parameter order:
  `extern_method`    an ExternMethod; `call.receiver` is the object: a Name of an InstanceDecl or Param, or `This`
  `extern_function`  an ExternFunction
  `function`         a FunctionDecl
  `action`           an ActionDecl, called directly (directionless parameters are bound, too)
  `table_apply`      a TableDecl; `call.receiver` is its Name
  `control_apply`    a ControlDecl (ControlTypeDecl for a constructor parameter); `call.receiver` is a Name of an
                     InstanceDecl or Param, or a TypeExpr (direct application `C.apply()`)
  `parser_apply`     the same for a ParserDecl or ParserTypeDecl
  `header_method`    target None; `call.method` is isValid, setValid, setInvalid; `call.receiver`
  `stack_method`     target None; `call.method` is push_front, pop_front; `call.receiver`, `call.bound[0]` is the count
  `size_method`      target None; minSizeInBits, minSizeInBytes, maxSizeInBits, maxSizeInBytes: `value` is folded
  `constructor`      an ExternDecl, ControlDecl, ParserDecl or PackageDecl; `call.type` is the object's type,
                     `call.constructor` the chosen ExternMethod of an ExternDecl

`Call.type_arguments` maps the target's (and the receiver's extern type's) type variables to types. `call.method` is
the bare name for all methods. `BoundArg.expr` is None for an omitted `@optional` argument; for an omitted argument
with a default it is the (checked) default expression; a `_` argument is `DontCare`.

Statements. `Assign.op` is "" or the operator of `op=` (`"+"`, `"<<"`, `"|+|"` …); the right side already has the
type of the left (shifts excepted). `Switch.on_action` tells a switch on `action_run` (labels are `Name`s whose
`decl` is the ActionDecl) from one on a value (labels are keysets folded to constants). A `SwitchCase` with `body is
None` falls through to the next.

Keysets (select cases, table entries, switch labels): `MaskExpr`, `RangeExpr`, `DefaultExpr` (`default` and `_`), a
plain expression, a `Name` of a `ValueSetDecl`, or `ListExpr`/`TupleKeyset` for several components.
`SelectCase.keys` and `Entry.keys` are always flat lists of one keyset per select expression/key field, a lone
`default`/`_` being repeated as needed; only a value set whose members are structs or tuples may stand alone for
several expressions.

Tables. `TableDecl.keys/actions/entries/properties` are split out and resolved (see the class).

Order. `Program.decls` is in source order, system includes first; error and match_kind declarations are merged in
`TypedProgram`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compiler.types import UNKNOWN, Type

if TYPE_CHECKING:
    from compiler import types
    from compiler.source import Source


@dataclass(eq=False)
class Node:
    """Anything with a place in the source."""

    pos: int = field(repr=False)


# --------------------------------------------------------------------------- annotations


@dataclass(eq=False)
class Annotation(Node):
    """`@name`, `@name(tokens)`, `@name[structured]` or `@pragma name tokens`."""

    name: str
    form: str
    """`plain`, `tokens` (unstructured body), `list` (`[e, e]`), `pairs` (`[k = e]`)."""
    tokens: Sequence[str] = ()
    """Body tokens as written (strings with their quotes) of the `tokens` form."""
    exprs: Sequence[Expr] = ()
    """`list` form."""
    pairs: Sequence[NamedExpr] = ()
    """`pairs` form."""
    text: str = ""
    """Body as written, without the outer brackets."""
    pragma: bool = False

    @property
    def string(self) -> str | None:
        """The string that is the whole body (`"a"`, `"a" ++ "b"`, `["a"]`), escapes as written; None if it is none."""
        if self.form == "list":
            only = self.exprs[0] if len(self.exprs) == 1 else None
            return only.text if isinstance(only, StringLiteral) else None
        parts, between = self.tokens[::2], self.tokens[1::2]
        if not parts or len(self.tokens) % 2 == 0 or any(b != "++" for b in between):
            return None
        if not all(p.startswith('"') for p in parts):
            return None
        return "".join(p[1:-1] for p in parts)


# --------------------------------------------------------------------------- types as written


@dataclass(eq=False)
class TypeRef(Node):
    """A type as written; `type` is what it means."""

    type: Type = field(default=UNKNOWN, init=False, repr=False)


@dataclass(eq=False)
class BaseTypeRef(TypeRef):
    """`bool`, `error`, `string`, `match_kind`, `void`, `_`, `bit`/`bit<n>`, `int`/`int<n>`, `varbit<n>`."""

    name: str
    size: Expr | None = None


@dataclass(eq=False)
class NamedTypeRef(TypeRef):
    """A declared type's name, perhaps specialised: `Name<args>`."""

    name: str
    absolute: bool = False
    args: Sequence[TypeRef] | None = None
    decl: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class StackTypeRef(TypeRef):
    """`element[size]`."""

    element: TypeRef
    size: Expr


@dataclass(eq=False)
class TupleTypeRef(TypeRef):
    """`tuple<…>`."""

    elements: Sequence[TypeRef]


@dataclass(eq=False)
class ListTypeRef(TypeRef):
    """`list<element>`."""

    element: TypeRef


# --------------------------------------------------------------------------- expressions


@dataclass(eq=False)
class Expr(Node):
    """An expression. See the module's text for `type` and `value`."""

    type: Type = field(default=UNKNOWN, init=False, repr=False)
    value: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class IntLiteral(Expr):
    """An integer; `width` None means infinite precision."""

    number: int
    width: int | None = None
    signed: bool = False
    text: str = ""


@dataclass(eq=False)
class BoolLiteral(Expr):
    """`true`, `false`."""

    truth: bool


@dataclass(eq=False)
class StringLiteral(Expr):
    """A string; `text` is the value, escapes undone."""

    text: str


@dataclass(eq=False)
class Name(Expr):
    """An identifier that names a value."""

    name: str
    absolute: bool = False
    """Written `.name`: looked up at top level."""
    decl: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class This(Expr):
    """`this`, inside an abstract method's implementation. `decl` is the InstanceDecl."""

    decl: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class TypeExpr(Expr):
    """A type used as a prefix or constructor; `type` is `types.TypeType`."""

    ref: TypeRef


@dataclass(eq=False)
class Member(Expr):
    """`expr.name`."""

    expr: Expr
    name: str
    kind: str = field(default="field", init=False, repr=False)


@dataclass(eq=False)
class Index(Expr):
    """`expr[index]`: element of a stack or array (also of a tuple, with a constant index)."""

    expr: Expr
    index: Expr


@dataclass(eq=False)
class Slice(Expr):
    """`expr[high:low]`; both are constants (`high.value`, `low.value`)."""

    expr: Expr
    high: Expr
    low: Expr


@dataclass(eq=False)
class PlusSlice(Expr):
    """`expr[low+:width]`; `width` is a constant, `low` need not be."""

    expr: Expr
    low: Expr
    width: Expr


@dataclass(eq=False)
class Unary(Expr):
    """`! ~ - +`."""

    op: str
    expr: Expr


@dataclass(eq=False)
class Binary(Expr):
    """`* / % + - |+| |-| << >> <= >= < > == != & ^ | ++ && ||`."""

    op: str
    left: Expr
    right: Expr


@dataclass(eq=False)
class Ternary(Expr):
    """`condition ? yes : no`."""

    condition: Expr
    yes: Expr
    no: Expr


@dataclass(eq=False)
class Cast(Expr):
    """`(type) expr`. `implicit` ones were inserted by the checker (`ref` is None then)."""

    ref: TypeRef | None
    expr: Expr
    implicit: bool = False


@dataclass(eq=False)
class NamedExpr(Node):
    """`name = expr` in a struct literal or a structured annotation."""

    name: str
    expr: Expr


@dataclass(eq=False)
class ListExpr(Expr):
    """`{a, b}`; `dots`: ends in `...`."""

    elements: list[Expr]
    dots: bool = False


@dataclass(eq=False)
class StructExpr(Expr):
    """`{a = x, b = y}`; `dots`: ends in `...`."""

    fields: list[NamedExpr]
    dots: bool = False


@dataclass(eq=False)
class InvalidHeader(Expr):
    """`{#}`: an invalid header or header union."""


@dataclass(eq=False)
class Dots(Expr):
    """`...`: the default value of its type."""


@dataclass(eq=False)
class DontCare(Expr):
    """`_` as an argument."""


@dataclass(eq=False)
class DefaultExpr(Expr):
    """`default` or `_` in a keyset or a switch."""


@dataclass(eq=False)
class MaskExpr(Expr):
    """`value &&& mask`."""

    left: Expr
    mask: Expr


@dataclass(eq=False)
class RangeExpr(Expr):
    """`low .. high`, both included."""

    low: Expr
    high: Expr


@dataclass(eq=False)
class TupleKeyset(Expr):
    """`(k1, k2, …)` in a select case or an entry."""

    elements: list[Expr]


@dataclass(eq=False)
class Argument(Node):
    """An argument as written."""

    name: str | None
    expr: Expr


@dataclass(eq=False)
class BoundArg:
    """A parameter and what a call gives it."""

    param: types.ParamType
    """With its type specialised for this call."""
    expr: Expr | None


@dataclass(eq=False)
class Call(Expr):
    """A call, or a constructor invocation. See the module's text."""

    callee: Expr
    type_args: Sequence[TypeRef] | None
    args: Sequence[Argument]
    kind: str = field(default="", init=False, repr=False)
    target: Any = field(default=None, init=False, repr=False)
    receiver: Expr | None = field(default=None, init=False, repr=False)
    method: str = field(default="", init=False, repr=False)
    constructor: ExternMethod | None = field(default=None, init=False, repr=False)
    type_arguments: dict[types.TypeVar, Type] = field(default_factory=dict, init=False, repr=False)
    bound: list[BoundArg] = field(default_factory=list, init=False, repr=False)


# --------------------------------------------------------------------------- declarations


@dataclass(eq=False)
class Decl(Node):
    """A declaration."""

    annotations: Sequence[Annotation]
    name: str
    type: Type = field(default=UNKNOWN, init=False, repr=False)
    """Its type, where it has one: the type that a type declaration introduces, the type of a variable or parameter, the
    `FunctionType` of a function or method, the type of the instance that an `InstanceDecl` makes."""

    def annotation(self, name: str) -> Annotation | None:
        """The first annotation called `name`, or None."""
        for found in self.annotations:
            if found.name == name:
                return found
        return None


@dataclass(eq=False)
class TypeParam(Decl):
    """A type parameter; `type` is its `types.TypeVar`."""


@dataclass(eq=False)
class Param(Decl):
    """A parameter of anything."""

    direction: str
    """`in`, `out`, `inout` or ``."""
    ref: TypeRef
    default: Expr | None = None


@dataclass(eq=False)
class ConstDecl(Decl):
    """`const T name = init;` (`value` is `init.value`)."""

    ref: TypeRef
    init: Expr
    value: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class VarDecl(Decl):
    """`T name [= init];`"""

    ref: TypeRef
    init: Expr | None


@dataclass(eq=False)
class InstanceDecl(Decl):
    """`T(args) name [= {…}];`: an instance of an extern, control, parser or package (or a stack of them)."""

    call: Call
    """The constructor call (`kind` `constructor`)."""
    ref: TypeRef
    initializer: Sequence[Decl] | None = None
    """Functions (implementations of abstract methods) and instances."""


@dataclass(eq=False)
class StructField(Decl):
    """A field."""

    ref: TypeRef


@dataclass(eq=False)
class RecordDecl(Decl):
    """`header`, `struct` or `header_union` (`keyword`)."""

    keyword: str
    type_params: Sequence[TypeParam]
    fields: Sequence[StructField]


@dataclass(eq=False)
class EnumMember(Decl):
    """`name` or `name = init`."""

    init: Expr | None = None


@dataclass(eq=False)
class EnumDecl(Decl):
    """`enum [bit<N>] name {…}`; `ref` is None without representation."""

    ref: TypeRef | None
    members: Sequence[EnumMember]


@dataclass(eq=False)
class ErrorDecl(Decl):
    """`error {…}` (name is `error`)."""

    members: Sequence[EnumMember]


@dataclass(eq=False)
class MatchKindDecl(Decl):
    """`match_kind {…}`."""

    members: Sequence[EnumMember]


@dataclass(eq=False)
class TypedefDecl(Decl):
    """`typedef T name;` or `type T name;` (`newtype`). `inline` is a struct/header/enum declared in place."""

    newtype: bool
    ref: TypeRef
    inline: Decl | None = None


@dataclass(eq=False)
class ExternMethod(Decl):
    """A method of an extern object; a constructor when its name is the extern's."""

    type_params: Sequence[TypeParam]
    result: TypeRef | None
    """None for a constructor."""
    params: Sequence[Param]
    abstract: bool = False
    extern: ExternDecl | None = field(default=None, init=False, repr=False)
    """The extern it belongs to."""


@dataclass(eq=False)
class ExternDecl(Decl):
    """`extern Name<T> { methods }`."""

    type_params: Sequence[TypeParam]
    methods: Sequence[ExternMethod]


@dataclass(eq=False)
class ExternFunction(Decl):
    """`extern T name(…);`"""

    type_params: Sequence[TypeParam]
    result: TypeRef
    params: Sequence[Param]


@dataclass(eq=False)
class FunctionDecl(Decl):
    """A function with a body."""

    type_params: Sequence[TypeParam]
    result: TypeRef
    params: Sequence[Param]
    body: Block


@dataclass(eq=False)
class ActionDecl(Decl):
    """`action name(params) {…}`; `type` is `types.ActionType`."""

    params: Sequence[Param]
    body: Block


@dataclass(eq=False)
class ApplicableDecl(Decl):
    """Base of parser, control and package types and of parsers and controls with bodies."""

    type_params: Sequence[TypeParam]
    params: Sequence[Param]


@dataclass(eq=False)
class ParserTypeDecl(ApplicableDecl):
    """`parser Name<…>(…);`"""


@dataclass(eq=False)
class ControlTypeDecl(ApplicableDecl):
    """`control Name<…>(…);`"""


@dataclass(eq=False)
class PackageDecl(ApplicableDecl):
    """`package Name<…>(…);`"""


@dataclass(eq=False)
class ParserDecl(ApplicableDecl):
    """A parser with states."""

    constructor_params: Sequence[Param]
    locals: Sequence[Decl]
    """`ConstDecl`, `VarDecl`, `InstanceDecl`, `ValueSetDecl`."""
    states: Sequence[StateDecl]


@dataclass(eq=False)
class ControlDecl(ApplicableDecl):
    """A control with a body."""

    constructor_params: Sequence[Param]
    locals: Sequence[Decl]
    """`ConstDecl`, `VarDecl`, `InstanceDecl`, `ActionDecl`, `TableDecl`."""
    body: Block


@dataclass(eq=False)
class ValueSetDecl(Decl):
    """`value_set<T>(size) name;`: `type` is `types.SetType`."""

    ref: TypeRef
    size: Expr


@dataclass(eq=False)
class StateDecl(Decl):
    """A parser state. `accept` and `reject` are `StateDecl`s without body, in `ACCEPT`/`REJECT`."""

    body: Sequence[Statement | Decl]
    transition: Transition | Select | None
    """None: no transition statement, which means `transition reject`."""


@dataclass(eq=False)
class Transition(Node):
    """`transition name;`"""

    name: str
    state: StateDecl | None = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class Select(Node):
    """`transition select (exprs) { cases }`."""

    exprs: list[Expr]
    cases: Sequence[SelectCase]


@dataclass(eq=False)
class SelectCase(Node):
    """`keyset: name;` After checking, `keys` has one keyset per select expression."""

    keys: list[Expr]
    name: str
    state: StateDecl | None = field(default=None, init=False, repr=False)


ACCEPT = StateDecl(0, (), "accept", (), None)
REJECT = StateDecl(0, (), "reject", (), None)


# --------------------------------------------------------------------------- tables


@dataclass(eq=False)
class KeyElement(Node):
    """`expr : match_kind annotations;`"""

    expr: Expr
    match_kind: str
    annotations: Sequence[Annotation]


@dataclass(eq=False)
class ActionRef(Node):
    """An action named in a table: `name` or `name(args)`. `call` binds the arguments given here (kind `action`;
    only those that
    the table fixes are bound: directional ones in `actions`, all of them in a default action or an entry)."""

    annotations: Sequence[Annotation]
    name: str
    absolute: bool
    args: Sequence[Argument] | None
    action: ActionDecl | None = field(default=None, init=False, repr=False)
    bound: list[BoundArg] = field(default_factory=list, init=False, repr=False)
    """In a default action or entry: one per parameter of the action, in order (directional ones repeat the
    `actions` binding).
    In the `actions` list: only the directional parameters."""


@dataclass(eq=False)
class Entry(Node):
    """One row of `entries`."""

    const: bool
    priority: Expr | None
    keys: list[Expr]
    action: ActionRef
    annotations: Sequence[Annotation]


@dataclass(eq=False)
class Property(Decl):
    """Any other table property: `size`, `default_action`, `implementation`, `counters`, `meters`,
    `support_timeout`, …"""

    const: bool
    expr: Expr


@dataclass(eq=False)
class TableDecl(Decl):
    """A table.

    `properties` holds every property but key, actions, entries. A `default_action` property is resolved into
    `default_action`
    (the core library's `NoAction` when the table has none and NoAction is listed or nothing is); its `Property`
    stays in `properties`.
    """

    keys: Sequence[KeyElement]
    actions: Sequence[ActionRef]
    entries: Sequence[Entry]
    entries_const: bool
    has_entries: bool
    properties: Sequence[Property]
    has_keys: bool = True
    has_actions: bool = True
    default_action: ActionRef | None = field(default=None, init=False, repr=False)
    default_action_const: bool = field(default=False, init=False, repr=False)

    def property(self, name: str) -> Property | None:
        """The property called `name`, or None."""
        for found in self.properties:
            if found.name == name:
                return found
        return None


# --------------------------------------------------------------------------- statements


@dataclass(eq=False)
class Statement(Node):
    """A statement. `VarDecl`, `ConstDecl` also stand in statement lists."""


@dataclass(eq=False)
class Block(Statement):
    """`{ … }`."""

    annotations: Sequence[Annotation]
    statements: list[Statement | Decl]


@dataclass(eq=False)
class Assign(Statement):
    """`left op= right;`"""

    left: Expr
    right: Expr
    op: str = ""


@dataclass(eq=False)
class CallStatement(Statement):
    """A call whose result is dropped."""

    call: Call


@dataclass(eq=False)
class If(Statement):
    """`if (condition) then [else otherwise]`."""

    condition: Expr
    then: Statement
    otherwise: Statement | None


@dataclass(eq=False)
class SwitchCase(Node):
    """A label and its block, None = falls through. `label` is a `DefaultExpr` for `default`."""

    label: Expr
    body: Block | None


@dataclass(eq=False)
class Switch(Statement):
    """`switch (expr) {…}`."""

    expr: Expr
    cases: Sequence[SwitchCase]
    on_action: bool = field(default=False, init=False, repr=False)


@dataclass(eq=False)
class For(Statement):
    """`for (init; condition; update) body`."""

    annotations: Sequence[Annotation]
    init: list[Statement | Decl]
    condition: Expr
    update: list[Statement]
    body: Statement


@dataclass(eq=False)
class ForIn(Statement):
    """`for (T var in collection) body`; `collection` is a `RangeExpr`, a stack, an array or a list."""

    annotations: Sequence[Annotation]
    var: VarDecl
    collection: Expr
    body: Statement


@dataclass(eq=False)
class Return(Statement):
    """`return [expr];`"""

    expr: Expr | None


@dataclass(eq=False)
class Exit(Statement):
    """`exit;`"""


@dataclass(eq=False)
class Break(Statement):
    """`break;`"""


@dataclass(eq=False)
class Continue(Statement):
    """`continue;`"""


@dataclass(eq=False)
class Empty(Statement):
    """`;`"""


# --------------------------------------------------------------------------- the whole


@dataclass(eq=False)
class Program:
    """All declarations of a compilation, in order."""

    decls: list[Decl]


@dataclass(eq=False)
class TypedProgram:
    """What `check` returns."""

    tree: Program
    source: Source
    errors: tuple[str, ...]
    """Members of `error`, in declaration order (core.p4's first)."""
    match_kinds: tuple[str, ...]
    main: InstanceDecl
    """The package instance called `main`."""
    warnings: list[Any]
    """Diagnostics that do not stop compilation."""
