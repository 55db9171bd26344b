"""The name of a table's key field, as P4Info and BMv2 JSON show it: `@name`, or the key's expression as written."""

from __future__ import annotations

from compiler import tree, types
from compiler.instances import local_name


def field_name(key: tree.KeyElement) -> str | None:
    """The name of a key field; None when its expression is too complex to have one and it carries no `@name`."""
    for annotation in key.annotations:
        if annotation.name == "name" and annotation.string is not None:
            return annotation.string
    return expression_name(key.expr)


def expression_name(expr: tree.Expr) -> str | None:
    """`hdr.ipv4.dst`, `hdr.vlan[0].id`, `x[7:4]`, `a & b`, `hdr.ipv4.$valid$`; None for anything else."""
    if isinstance(expr, tree.Name):
        return expr.name
    if isinstance(expr, tree.IntLiteral):
        return _literal(expr)
    if isinstance(expr, tree.Cast) and expr.implicit:
        return expression_name(expr.expr)
    if isinstance(expr, tree.Member):
        return _member(expr)
    if isinstance(expr, tree.Index):
        left, index = expression_name(expr.expr), expression_name(expr.index)
        return None if left is None or index is None else f"{left}[{index}]"
    if isinstance(expr, tree.Slice):
        parts = [expression_name(e) for e in (expr.expr, expr.high, expr.low)]
        return None if None in parts else "{}[{}:{}]".format(*parts)
    if isinstance(expr, tree.Binary) and expr.op == "&":
        left, right = expression_name(expr.left), expression_name(expr.right)
        return None if left is None or right is None else f"{left} & {right}"
    if isinstance(expr, tree.Call) and expr.kind == "header_method" and expr.method == "isValid":
        assert expr.receiver is not None
        base = expression_name(expr.receiver)
        return None if base is None else f"{base}.$valid$"
    return None


def _member(expr: tree.Member) -> str | None:
    name = expr.name
    base = expr.expr.type
    if isinstance(base, types.RecordType):
        field = base.field(name)
        if field is not None:
            name = local_name(field.node)
            if name.startswith("."):
                return name[1:]
    prefix = expression_name(expr.expr)
    return None if prefix is None else f"{prefix}.{name}"


def _literal(expr: tree.IntLiteral) -> str:
    """A number in the base it was written in, without its width."""
    digits = expr.text.lower()
    for mark in "ws":
        width, found, rest = digits.partition(mark)
        if found and width.isdigit():
            digits = rest
            break
    for prefix, form in (("0x", "#x"), ("0b", "#b"), ("0o", "#o")):
        if digits.startswith(prefix):
            return format(expr.number, form)
    return str(expr.number)
