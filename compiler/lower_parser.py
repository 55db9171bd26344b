"""Parsers: states, transitions, sub-parsers and the packet's own methods."""

from __future__ import annotations

from itertools import product

from compiler import arith, ir, tree, types
from compiler.ir import bits
from compiler.lower_blocks import declare_locals
from compiler.lower_call import bind, block_object, inline
from compiler.lower_context import Scope
from compiler.lower_expr import as_scalar, lower, read, rvalue
from compiler.lower_stmt import statements
from compiler.storage import scalar_of
from compiler.values import (
    BlockObject,
    Header,
    HeaderLiteral,
    NextHeader,
    Nothing,
    Packet,
    Record,
    StackLiteral,
    Text,
    Value,
    leaves,
)

# --------------------------------------------------------------------------- states


def parser_states(scope: Scope, block: BlockObject, prefix: str) -> list[ir.State]:
    """The states of a parser whose parameters are bound in `scope.env`; the start state first."""
    decl = block.decl
    assert isinstance(decl, tree.ParserDecl)
    start = next((state for state in decl.states if state.name == "start"), None)
    if start is None:
        scope.fail(decl, f"parser {decl.name} has no start state")
    order = _reachable(start)
    heads = {state: ir.State(prefix + state.name, pos=state.pos) for state in order}
    first = scope.derive(out=[])
    declare_locals(first, block)
    for state in order:
        head = heads[state]
        inner = scope.derive(out=head.body)
        statements(inner, state.body)
        _transition(inner, state, head, heads)
    states = [heads[state] for state in order]
    if first.out:
        if any(case.target is states[0] for state in states for case in state.cases):
            entry = ir.State(f"{prefix}init", first.out, cases=[ir.Case(states[0])], pos=decl.pos)
            states.insert(0, entry)
        else:
            states[0].body[:0] = first.out
    return states


def _reachable(start: tree.StateDecl) -> list[tree.StateDecl]:
    order = [start]
    seen = {id(start)}
    for state in order:
        transition = state.transition
        targets = (
            [transition.state]
            if isinstance(transition, tree.Transition)
            else [case.state for case in transition.cases]
            if isinstance(transition, tree.Select)
            else []
        )
        for target in targets:
            if target is None or target in (tree.ACCEPT, tree.REJECT) or id(target) in seen:
                continue
            seen.add(id(target))
            order.append(target)
    return order


def _target(
    scope: Scope, state: tree.StateDecl | None, heads: dict[tree.StateDecl, ir.State], node: tree.Node
) -> ir.State | None:
    if state is tree.ACCEPT:
        return None
    if state is None or state is tree.REJECT:
        scope.low.warn(node.pos, "transition to reject: the target goes on as with accept")
        return ir.REJECT
    return heads[state]


def _transition(
    scope: Scope, state: tree.StateDecl, head: ir.State, heads: dict[tree.StateDecl, ir.State]
) -> None:
    transition = state.transition
    if transition is None:
        head.cases = [ir.Case(_target(scope, tree.REJECT, heads, state))]
    elif isinstance(transition, tree.Transition):
        head.cases = [ir.Case(_target(scope, transition.state, heads, transition))]
    else:
        _select(scope, transition, head, heads)


def _select(scope: Scope, node: tree.Select, head: ir.State, heads: dict[tree.StateDecl, ir.State]) -> None:
    widths: list[int] = []
    """Per select expression, how many keys it gives."""
    for expr in node.exprs:
        found = _keys(scope, expr)
        widths.append(len(found))
        head.keys += found
    for case in node.cases:
        target = _target(scope, case.state, heads, case)
        if len(case.keys) == 1 and isinstance(case.keys[0], tree.Name):
            named = scope.env.get(case.keys[0].decl)
            if isinstance(case.keys[0].decl, tree.ValueSetDecl) and isinstance(named, Text):
                head.cases.append(ir.Case(target, value_set=named.text))
                continue
        columns: list[list[tuple[int, int | None]]] = []
        position = 0
        for keyset, width in zip(case.keys, widths, strict=True):
            columns += _keyset(scope, keyset, head.keys[position : position + width])
            position += width
        for row in product(*columns):
            if all(mask == 0 for _, mask in row):
                head.cases.append(ir.Case(target))
            else:
                head.cases.append(ir.Case(target, list(row)))
        if head.cases and head.cases[-1].keys is None and head.cases[-1].value_set is None:
            break


def _keys(scope: Scope, expr: tree.Expr) -> list[ir.Expr]:
    # What is looked ahead at goes through a cell too: BMv2 reads a key's bits whether or not the packet has them.
    value = rvalue(scope, lower(scope, expr), expr)
    keys: list[ir.Expr] = []
    for leaf in leaves(value):
        part = as_scalar(scope, leaf, expr)
        if not isinstance(part, ir.Field | ir.LastField):
            cell = scope.temporary(part.type, "select")
            scope.emit(ir.Assign(cell, part, pos=expr.pos))
            part = cell
        keys.append(part)
    return keys


def _constant(scope: Scope, node: tree.Expr) -> int:
    value = read(scope, node)
    if not isinstance(value, ir.Const):
        scope.fail(node, "a keyset must be a compile-time constant")
    return value.value


def _keyset(scope: Scope, node: tree.Expr, keys: list[ir.Expr]) -> list[list[tuple[int, int | None]]]:
    """Per key, the (value, mask) alternatives that a keyset stands for."""
    if isinstance(node, tree.DefaultExpr):
        return [[(0, 0)] for _ in keys]
    if isinstance(node, tree.TupleKeyset | tree.ListExpr) and node.value is None:
        if len(node.elements) == len(keys):
            parts = [_keyset(scope, e, [k]) for e, k in zip(node.elements, keys, strict=True)]
            return [column for part in parts for column in part]
        if len(node.elements) == 1:
            return _keyset(scope, node.elements[0], keys)
        scope.fail(node, "this keyset does not fit the select expression")
    if isinstance(node, tree.Name) and isinstance(node.decl, tree.ValueSetDecl):
        scope.fail(node, "a value_set beside other keys is not supported")
    if isinstance(node, tree.MaskExpr):
        return [[(_constant(scope, node.left) & _constant(scope, node.mask), _constant(scope, node.mask))]]
    if isinstance(node, tree.RangeExpr):
        width = keys[0].type.width
        signed = keys[0].type.kind == "int"
        low, high = _constant(scope, node.low), _constant(scope, node.high)
        if low > high:
            scope.fail(node, f"the range {low} .. {high} is empty")
        if signed and low < 0:
            split = [(low, min(high, -1)), (0, high)] if high >= 0 else [(low, high)]
            mask = (1 << width) - 1
            return [[row for a, b in split for row in prefixes(a & mask, b & mask, width)]]
        return [prefixes(low, high, width)]
    value = rvalue(scope, lower(scope, node), node)
    constants: list[list[tuple[int, int | None]]] = []
    for leaf in leaves(value):
        if not isinstance(leaf, ir.Const):
            scope.fail(node, "a keyset must be a compile-time constant")
        constants.append([(leaf.value, None)])
    if len(constants) != len(keys):
        scope.fail(node, "this keyset does not fit the select expression")
    return constants


def prefixes(low: int, high: int, width: int) -> list[tuple[int, int | None]]:
    """The shortest list of (value, mask) prefixes that covers `low..high`."""
    result: list[tuple[int, int | None]] = []
    ones = (1 << width) - 1
    while low <= high:
        size = 1 if low & 1 else (low & -low if low else 1 << width)
        while low + size - 1 > high:
            size >>= 1
        mask = ones & ~(size - 1)
        result.append((low, None if mask == ones else mask))
        low += size
    return result


# --------------------------------------------------------------------------- sub-parsers


def apply_parser(scope: Scope, node: tree.Call) -> Value:
    """`p.apply(…)` in a state."""
    if scope.block != "parser":
        scope.fail(node, "a parser can only be applied in a parser")
    block = block_object(scope, node)
    decl = block.decl
    assert isinstance(decl, tree.ParserDecl)

    def storage(param: types.ParamType, type_: types.Type) -> Value:
        return scope.new(f"{block.name}.{param.name}", type_, node)

    bound = bind(scope, node.bound, node, True, storage)
    for param, value in zip(decl.params, bound.values, strict=True):
        block.env[param] = value
    inner = scope.derive(
        env=block.env,
        path=block.name,
        cells=block.cells,
        instance=block,
        tvars=dict(zip((p.type for p in decl.type_params), block.type.args, strict=False)),
    )
    prefix = f"{block.name}."

    def run(body: Scope) -> None:
        body.emit(ir.SubParser(parser_states(body, block, prefix), pos=node.pos))

    inline(scope, inner, bound, node, run)
    return Nothing()


# --------------------------------------------------------------------------- packet_in and packet_out


def packet_call(scope: Scope, node: tree.Call, packet: Packet) -> Value:
    """A method of the packet."""
    if packet.output:
        if node.method == "emit":
            from compiler.lower_deparser import emit

            return emit(scope, node)
        scope.fail(node, f"packet_out.{node.method}() is not supported")
    if scope.block != "parser":
        scope.fail(node, f"packet_in.{node.method}() can only be called in the parser")
    if node.method == "extract":
        return _extract(scope, node)
    if node.method == "lookahead":
        return _lookahead(scope, node)
    if node.method == "length":
        return ir.Field("standard_metadata", "packet_length", bits(32))
    if node.method == "advance":
        amount = node.bound[0].expr
        assert amount is not None
        scope.emit(ir.Advance(read(scope, amount), pos=node.pos))
        return Nothing()
    scope.fail(node, f"packet_in.{node.method}() is not supported by the target")


def _extract(scope: Scope, node: tree.Call) -> Value:
    argument = node.bound[0].expr
    length: ir.Expr | None = None
    if len(node.bound) > 1 and node.bound[1].expr is not None:
        length = read(scope, node.bound[1].expr)
    if argument is None or isinstance(argument, tree.DontCare):
        type_ = types.substitute(node.bound[0].param.type, scope.tvars)
        width = types.width_bits(type_)
        if width is None or length is not None:
            scope.fail(node, "extract(_) of this type is not supported")
        scope.emit(ir.Advance(ir.Const(width, bits(32)), pos=node.pos))
        return Nothing()
    target = lower(scope, argument)
    if isinstance(target, NextHeader):
        if isinstance(target.type, types.HeaderType):
            scope.emit(ir.Extract(ir.NextElement(target.stack.name, target.member), length, pos=node.pos))
            return Nothing()
    elif isinstance(target, Header):
        if target.ref.index is not None:
            _extract_indexed(scope, target.ref, length, node)
        else:
            scope.emit(ir.Extract(target.ref, length, pos=node.pos))
        return Nothing()
    scope.fail(argument, "extract into this value is not supported")


def _extract_indexed(scope: Scope, ref: ir.HeaderRef, length: ir.Expr | None, node: tree.Call) -> None:
    """Extract into a stack element that only the packet decides: one way per element, else StackOutOfBounds."""
    index = ref.index.value if isinstance(ref.index, ir.Clamp) else ref.index
    assert index is not None
    size = next(stack.size for stack in scope.low.unit.stacks if stack.name == ref.name)
    error = arith.const(scope.low.errors["StackOutOfBounds"], bits(32))
    ways: list[ir.Stmt] = [ir.Verify(ir.FALSE, error, pos=node.pos)]
    for number in range(size - 1, -1, -1):
        here: list[ir.Stmt] = [ir.Extract(ir.HeaderRef(f"{ref.name}[{number}]"), length, pos=node.pos)]
        test = arith.compare("==", index, arith.const(number, index.type))
        ways = [ir.If(test, here, ways, pos=node.pos)]
    scope.out.extend(ways)


def _lookahead(scope: Scope, node: tree.Call) -> Value:
    type_ = types.underlying(scope.type(node))
    scalar_type = scalar_of(type_)
    width = types.width_bits(type_)
    if width is None or width == 0 or (scalar_type is not None and scalar_type.kind == "varbit"):
        scope.fail(node, f"lookahead of {type_} is not supported")
    cell = scope.temporary(bits(width), "lookahead")
    scope.emit(ir.Assign(cell, ir.Lookahead(0, bits(width)), pos=node.pos))
    value, _ = _unpack(scope, cell, type_, width, node)
    return value


def _unpack(scope: Scope, cell: ir.Expr, type_: types.Type, top: int, node: tree.Node) -> tuple[Value, int]:
    """A value of `type_` from the bits below `top`; what is left below it."""
    type_ = types.underlying(type_)
    scalar_type = scalar_of(type_)
    if scalar_type is not None:
        if scalar_type.kind == "varbit":
            scope.fail(node, "lookahead of a varbit is not supported")
        rest = top - scalar_type.width
        part = arith.slice_(cell, top - 1, rest)
        if scalar_type.kind == "bool":
            return arith.to_bool(part), rest
        return arith.wrap(part, scalar_type), rest
    if isinstance(type_, types.StackType):
        elements: list[Value] = []
        for _ in range(type_.size):
            element, top = _unpack(scope, cell, type_.element, top, node)
            elements.append(element)
        if type_.is_header_stack:
            return StackLiteral(type_, elements), top
        return Record(type_, {str(i): e for i, e in enumerate(elements)}), top
    fields: dict[str, Value] = {}
    parts: list[tuple[str, types.Type]]
    if isinstance(type_, types.HeaderType | types.StructType):
        parts = [(f.name, f.type) for f in type_.fields]
    elif isinstance(type_, types.TupleType):
        parts = [(str(i), t) for i, t in enumerate(type_.elements)]
    else:
        scope.fail(node, f"lookahead of {type_} is not supported")
    for name, part_type in parts:
        fields[name], top = _unpack(scope, cell, part_type, top, node)
    if isinstance(type_, types.HeaderType):
        return HeaderLiteral(type_, ir.TRUE, fields), top
    return Record(type_, fields), top
