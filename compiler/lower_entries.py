"""Constant table entries: keysets as match values, and the priorities that the language gives them."""

from __future__ import annotations

from compiler import ir, tree
from compiler.lower_context import Scope
from compiler.lower_expr import read


def entries(
    scope: Scope, decl: tree.TableDecl, keys: list[ir.Key], actions: dict[tree.ActionDecl, ir.Action]
) -> list[ir.Entry]:
    """The entries of a table, in source order."""
    from compiler.lower_table import action_arguments

    result: list[ir.Entry] = []
    matched = [(number, key) for number, key in enumerate(keys) if key.match != "selector"]
    for entry in decl.entries:
        ref = entry.action
        if ref.action is None or ref.action not in actions:
            scope.fail(ref, f"action {ref.name} is not an action of table {decl.name}")
        matches = [_match(scope, entry.keys[number], key) for number, key in matched]
        result.append(ir.Entry(matches, actions[ref.action], action_arguments(scope, ref), 0, entry.pos))
    for row, priority in zip(result, _priorities(scope, decl), strict=True):
        row.priority = priority
    return result


def _constant(scope: Scope, node: tree.Expr) -> int:
    value = read(scope, node)
    if not isinstance(value, ir.Const):
        scope.fail(node, "a table entry needs constants")
    return value.value


def _match(scope: Scope, node: tree.Expr, key: ir.Key) -> ir.Match:
    width = key.field.type.width
    ones = (1 << width) - 1
    if isinstance(node, tree.TupleKeyset) and len(node.elements) == 1:
        node = node.elements[0]
    if isinstance(node, tree.DefaultExpr):
        if key.match == "exact":
            scope.fail(node, "an exact key needs a value")
        return ir.Match(0, mask=0, prefix=0, high=ones)
    if isinstance(node, tree.MaskExpr):
        value, mask = _constant(scope, node.left) & ones, _constant(scope, node.mask) & ones
        if key.match == "ternary":
            return ir.Match(value & mask, mask=mask)
        if key.match == "lpm":
            prefix = mask.bit_count()
            if mask != ones ^ ((1 << (width - prefix)) - 1):
                scope.fail(node, "the mask of an lpm key must be a prefix: ones, then zeros")
            return ir.Match(value & mask, prefix=prefix)
        if key.match in ("exact", "optional", "range") and mask == ones:
            return ir.Match(value, mask=ones, high=value)
        scope.fail(node, f"a mask is not supported for a key of kind {key.match}")
    if isinstance(node, tree.RangeExpr):
        low, high = _constant(scope, node.low), _constant(scope, node.high)
        if key.match != "range":
            scope.fail(node, f"a range is not supported for a key of kind {key.match}")
        if low > high:
            scope.fail(node, f"the range {low} .. {high} is empty")
        return ir.Match(low, high=high)
    value = _constant(scope, node)
    return ir.Match(value, mask=ones, prefix=width, high=value)


def _priorities(scope: Scope, decl: tree.TableDecl) -> list[int]:
    """BMv2's priorities (smaller wins), one per entry.

    Without any in the source, the order counts. `@priority(n)` is BMv2's own number. Otherwise the language's rules:
    an entry without priority gets its predecessor's plus or minus `priority_delta`.
    """
    count = len(decl.entries)
    noted: list[int | None] = []
    for entry in decl.entries:
        found = None
        for annotation in entry.annotations:
            if annotation.name == "priority":
                text = "".join(annotation.tokens)
                try:
                    found = int(text, 0)
                except ValueError:
                    scope.fail(annotation, f"@priority takes a number, not {text}")
        noted.append(found)
    if any(number is not None for number in noted):
        return [position + 1 if number is None else number for position, number in enumerate(noted)]
    if all(entry.priority is None for entry in decl.entries):
        return list(range(1, count + 1))
    largest = _property(scope, decl, "largest_priority_wins", 1) != 0
    delta = _property(scope, decl, "priority_delta", 1)
    values: list[int] = []
    for position, entry in enumerate(decl.entries):
        if entry.priority is not None:
            values.append(_constant(scope, entry.priority))
        elif position == 0:
            values.append((count - 1) * delta + 1 if largest else 1)
        else:
            values.append(values[-1] - delta if largest else values[-1] + delta)
    for value, entry in zip(values, decl.entries, strict=True):
        if value < 0:
            scope.fail(entry, f"the priority of this entry would be {value}; it cannot be negative")
    order = sorted(set(values), reverse=largest)
    return [order.index(value) + 1 for value in values]


def _property(scope: Scope, decl: tree.TableDecl, name: str, default: int) -> int:
    found = decl.property(name)
    return default if found is None else _constant(scope, found.expr)
