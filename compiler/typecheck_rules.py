"""Rules of the language that are about one construct each: what core.p4's methods accept, which types a parameter or an
element may have, where types without a width are left over, which entries contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from compiler import tree, types
from compiler.types import BitType, InfIntType, Type, TypeVar

Complaint = tuple[int, str]
"""Position and message."""


# --------------------------------------------------------------------------- core library


def core_method(call: tree.Call, extern: str) -> Iterator[Complaint]:
    """What is wrong with a checked call of packet_in's or packet_out's methods."""
    if extern == "packet_in" and call.method == "extract":
        yield from _extract(call)
    elif extern == "packet_in" and call.method == "lookahead":
        if not has_fixed_width(call.type) and not isinstance(call.type, TypeVar):
            yield call.pos, f"lookahead needs a type of fixed width, not {call.type}"
    elif extern == "packet_out" and call.method == "emit":
        target = call.bound[0].param.type
        if not emittable(target):
            yield (
                call.bound[0].expr.pos if call.bound[0].expr else call.pos,
                f"emit needs headers, not {target}",
            )


def _extract(call: tree.Call) -> Iterator[Complaint]:
    bound = call.bound[0]
    header = bound.param.type
    pos = bound.expr.pos if bound.expr is not None else call.pos
    if isinstance(header, TypeVar):
        return
    if not isinstance(header, types.HeaderType):
        hint = ""
        if isinstance(header, types.StackType):
            hint = " (one element is extracted with .next)"
        elif isinstance(header, types.HeaderUnionType):
            hint = " (extract one of its headers)"
        yield pos, f"extract needs a header, not {header}{hint}"
        return
    varying = [f for f in header.fields if isinstance(types.underlying(f.type), types.VarbitType)]
    if len(varying) > 1:
        names = " and ".join(f"'{f.name}'" for f in varying)
        yield (
            pos,
            f"{header} has {len(varying)} varbit fields ({names}); a header that is extracted has one at most",
        )
        return
    flexible = bool(varying)
    if len(call.bound) == 1 and flexible:
        yield pos, f"{header} has a varbit field: extract needs its size in bits as a second argument"
    elif len(call.bound) == 2 and not flexible:
        yield pos, f"{header} has no varbit field: extract takes no second argument here"


def has_fixed_width(type_: Type) -> bool:
    """Whether every value of the type has the same number of bits."""
    base = types.underlying(type_)
    if isinstance(base, types.BitType | types.BoolType):
        return True
    if isinstance(base, types.HeaderUnionType):
        return False
    if isinstance(base, types.RecordType):
        return all(has_fixed_width(f.type) for f in base.fields)
    if isinstance(base, types.TupleType):
        return all(map(has_fixed_width, base.elements))
    return isinstance(base, types.StackType) and has_fixed_width(base.element)


def emittable(type_: Type) -> bool:
    """Whether packet_out.emit makes sense of a value: headers, and what is built from headers."""
    if isinstance(type_, types.HeaderType | types.HeaderUnionType | TypeVar | types.DontCareType):
        return True
    if isinstance(type_, types.StackType):
        return emittable(type_.element)
    if isinstance(type_, types.StructType):
        return all(emittable(f.type) for f in type_.fields)
    return isinstance(type_, types.TupleType) and all(map(emittable, type_.elements))


# --------------------------------------------------------------------------- inference


def without_width(type_: Type) -> bool:
    """Whether a value of the type has no run-time form because a number in it has no width."""
    if isinstance(type_, types.InfIntType):
        return True
    return isinstance(type_, types.TupleType) and any(map(without_width, type_.elements))


def literal_without_width(expr: tree.Expr) -> tree.Expr:
    """The first number in `expr` that needs a width, for the message."""
    parts: Sequence[tree.Expr] = ()
    if isinstance(expr, tree.ListExpr):
        parts = expr.elements
    elif isinstance(expr, tree.StructExpr):
        parts = [f.expr for f in expr.fields]
    for part in parts:
        if without_width(part.type):
            return literal_without_width(part)
    return expr


# --------------------------------------------------------------------------- parameters and fields


def parameter(param: tree.Param, owner: str) -> Iterator[Complaint]:
    """What is wrong with a parameter; `owner` is `function`, `action`, `method`, `constructor`, `package`, `parser`…"""
    type_ = param.type
    if owner in ("function", "action", "constructor") and _is_optional(param):
        yield (
            param.pos,
            f"'{param.name}' of a {owner} cannot be @optional; only those of externs and packages can",
        )
    if owner == "constructor" and isinstance(
        getattr(type_, "decl", None), tree.ControlDecl | tree.ParserDecl
    ):
        yield (
            param.pos,
            f"the parameter '{param.name}' needs a control or parser type; {type_} is one control or parser",
        )
    if isinstance(type_, types.ApplicableType) and owner not in (
        "constructor",
        "package",
        "extern constructor",
    ):
        yield param.pos, f"the parameter '{param.name}' of a {owner} cannot be a parser, control or package"
    elif isinstance(type_, types.TableType):
        yield param.pos, f"the parameter '{param.name}' cannot be a table"
    elif isinstance(type_, types.ExternType) and owner == "action":
        yield param.pos, f"an action cannot have a parameter that is an extern object ('{param.name}')"
    elif isinstance(type_, types.InfIntType) and owner == "action":
        yield param.pos, f"the parameter '{param.name}' of an action needs a width: bit<N> or int<N>"
    elif isinstance(type_, types.InfIntType) and param.direction and owner != "method":
        yield param.pos, f"the parameter '{param.name}' of type int cannot have a direction; give it a width"
    elif isinstance(type_, types.StringType) and param.direction:
        yield param.pos, f"the parameter '{param.name}' of type string cannot have a direction"


def _is_optional(param: tree.Param) -> bool:
    return any(a.name == "optional" for a in param.annotations)


def tuple_element(type_: Type) -> bool:
    """Whether a tuple can hold a value of the type."""
    return not isinstance(type_, types.ApplicableType | types.ExternType | types.TableType | types.VoidType)


# --------------------------------------------------------------------------- tables


def same_expression(left: tree.Expr | None, right: tree.Expr | None) -> bool:
    """Whether two expressions are written the same, casts that were put in apart."""
    left, right = _bare(left), _bare(right)
    if left is None or right is None:
        return left is right
    if type(left) is not type(right):
        return left.value is not None and left.value == right.value and left.type == right.type
    if isinstance(left, tree.Name) and isinstance(right, tree.Name):
        return left.decl is right.decl
    if isinstance(left, tree.Member) and isinstance(right, tree.Member):
        return left.name == right.name and same_expression(left.expr, right.expr)
    if isinstance(left, tree.IntLiteral) and isinstance(right, tree.IntLiteral):
        return left.number == right.number and left.type == right.type
    if getattr(left, "op", None) != getattr(right, "op", None):
        return False
    if isinstance(left, tree.StructExpr) and isinstance(right, tree.StructExpr):
        mine_by_name = {f.name: f.expr for f in left.fields}
        others_by_name = {f.name: f.expr for f in right.fields}
        return mine_by_name.keys() == others_by_name.keys() and all(
            same_expression(mine_by_name[n], others_by_name[n]) for n in mine_by_name
        )
    mine, others = list(_parts(left)), list(_parts(right))
    return (
        len(mine) == len(others)
        and left.value == right.value
        and all(same_expression(a, b) for a, b in zip(mine, others, strict=True))
    )


def _bare(expr: tree.Expr | None) -> tree.Expr | None:
    while isinstance(expr, tree.Cast) and expr.implicit:
        expr = expr.expr
    return expr


def _parts(expr: tree.Expr) -> Iterable[tree.Expr]:
    from compiler.visit import operands

    return operands(expr)


def entries(table: tree.TableDecl) -> Iterator[Complaint]:
    """Entries that contradict each other, and priorities where there can be none."""
    exact = bool(table.keys) and all(k.match_kind == "exact" for k in table.keys)
    ordered = any(k.match_kind not in ("exact", "lpm") for k in table.keys)
    seen: dict[tuple[object, ...], tree.Entry] = {}
    for entry in table.entries:
        if entry.priority is not None:
            if table.entries_const:
                yield entry.pos, "const entries are tried in the order written, so they have no priority"
            elif not ordered:
                yield entry.pos, "only tables with ternary, range or optional keys have priorities"
        if exact:
            key = tuple(k.value for k in entry.keys)
            if None not in key and key in seen:
                yield entry.pos, "an entry before this one has the same key"
            seen[key] = entry
    with_priority = [e.priority is not None for e in table.entries]
    if ordered and not table.entries_const and any(with_priority) and not with_priority[0]:
        yield table.entries[0].pos, "the first entry needs a priority when others have one"


def prefix_mask(mask: int, width: int) -> bool:
    """Whether `mask` is ones followed by zeros."""
    everything = (1 << width) - 1
    return mask == everything ^ (everything >> bin(mask & everything).count("1"))


# --------------------------------------------------------------------------- parsers


def reaches_end(states: Sequence[tree.StateDecl]) -> bool:
    """Whether a parser can get from start to accept or reject."""
    by_name = {s.name: s for s in states}
    seen: set[str] = set()
    todo = ["start"]
    while todo:
        name = todo.pop()
        if name in ("accept", "reject"):
            return True
        state = by_name.get(name)
        if state is None or name in seen:
            continue
        seen.add(name)
        if isinstance(state.transition, tree.Transition):
            todo.append(state.transition.name)
        elif isinstance(state.transition, tree.Select):
            todo += [c.name for c in state.transition.cases]
            if not any(all(isinstance(k, tree.DefaultExpr) for k in c.keys) for c in state.transition.cases):
                return True  # no match is an error, and so the end
        else:
            return True
    return False


# --------------------------------------------------------------------------- operators and casts


def comparable(type_: Type) -> bool:
    """Whether == is defined."""
    if isinstance(type_, types.TupleType):
        return all(map(comparable, type_.elements))
    if isinstance(type_, types.RecordType):
        return all(comparable(f.type) for f in type_.fields)
    if isinstance(type_, types.StackType):
        return comparable(type_.element)
    return isinstance(
        type_,
        BitType
        | InfIntType
        | types.BoolType
        | types.StringType
        | types.ErrorType
        | types.EnumType
        | types.SerEnumType
        | types.NewType
        | types.VarbitType
        | types.MatchKindType,
    )


def castable(source: Type, target: Type) -> bool:
    """Whether an explicit cast from `source` to `target` is defined."""
    if source == target:
        return True
    if isinstance(source, types.NewType) and castable(source.underlying, target):
        return True
    if isinstance(target, types.NewType):
        return source == target.underlying or (
            isinstance(source, InfIntType) and isinstance(types.underlying(target), BitType)
        )
    if isinstance(source, types.SerEnumType):
        return castable(source.underlying, target)
    if isinstance(target, types.SerEnumType):
        return isinstance(source, InfIntType) or castable(source, target.underlying)
    if isinstance(target, types.BoolType):
        return isinstance(source, InfIntType) or (
            isinstance(source, BitType) and source.width == 1 and not source.signed
        )
    if isinstance(source, types.BoolType):
        return isinstance(target, BitType) and target.width == 1 and not target.signed
    if isinstance(source, InfIntType):
        return isinstance(target, BitType)
    if isinstance(target, InfIntType):
        return isinstance(source, BitType)
    if isinstance(source, BitType) and isinstance(target, BitType):
        return source.signed == target.signed or source.width == target.width
    if isinstance(source, types.TupleType) and isinstance(target, types.ListType):
        return all(castable(e, target.element) for e in source.elements)
    return False


def is_literal(expr: tree.Expr) -> bool:
    """Whether an expression has no type of its own but takes the one it is used as."""
    return isinstance(expr, tree.ListExpr | tree.StructExpr | tree.InvalidHeader | tree.Dots)


def size_range(type_: Type) -> tuple[int, int] | None:
    """Smallest and largest size of a value in bits, or None where sizes make no sense."""
    base = types.underlying(type_)
    if isinstance(base, types.BitType):
        return base.width, base.width
    if isinstance(base, types.BoolType):
        return 1, 1
    if isinstance(base, types.VarbitType):
        return 0, base.width
    if isinstance(base, types.StackType):
        inner = size_range(base.element)
        return None if inner is None else (inner[0] * base.size, inner[1] * base.size)
    if isinstance(base, types.TupleType | types.RecordType):
        parts = base.elements if isinstance(base, types.TupleType) else tuple(f.type for f in base.fields)
        sizes = [size_range(p) for p in parts]
        known = [s for s in sizes if s is not None]
        if len(known) != len(sizes):
            return None
        if isinstance(base, types.HeaderUnionType):
            return min((s[0] for s in known), default=0), max((s[1] for s in known), default=0)
        return sum(s[0] for s in known), sum(s[1] for s in known)
    return None
