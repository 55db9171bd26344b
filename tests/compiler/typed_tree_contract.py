"""The contract of the typed tree, as a check: `violations(program)` lists what a back end could stumble over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields as dataclass_fields
from typing import Any

from compiler import tree, types

SAME_TYPE = {"*", "/", "%", "+", "-", "|+|", "|-|", "&", "|", "^", "==", "!=", "<", "<=", ">", ">="}


def nodes(root: Any) -> Iterator[Any]:
    """Every node below `root`, following syntax only (what the constructor takes)."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, (list, tuple)):
            stack.extend(node)
        elif isinstance(node, (tree.Node, tree.Program)):
            yield node
            stack.extend(getattr(node, f.name) for f in dataclass_fields(node) if f.init)


def violations(program: tree.TypedProgram) -> list[str]:
    """Sentences with places; empty when the contract holds."""
    found: list[str] = []

    def say(node: tree.Node, what: str) -> None:
        found.append(f"{':'.join(map(str, program.source.locate(node.pos)))} {type(node).__name__}: {what}")

    callees = {id(n.callee) for n in nodes(program.tree) if isinstance(n, tree.Call)}
    no_type = {id(e) for n in nodes(program.tree) for e in _untyped(n)}
    for node in nodes(program.tree):
        if isinstance(node, tree.Expr):
            if (
                isinstance(node.type, types.UnknownType)
                and id(node) not in callees
                and id(node) not in no_type
            ):
                say(node, "has no type")
            if isinstance(node.type, types.BitType) and isinstance(node.value, int):
                low, high = (0, (1 << node.type.width) - 1)
                if node.type.signed:
                    low, high = -(1 << (node.type.width - 1)), (1 << (node.type.width - 1)) - 1
                if not low <= node.value <= high:
                    say(node, f"value {node.value} outside {node.type}")
        if isinstance(node, tree.Name) and node.decl is None and id(node) not in no_type:
            say(node, f"{node.name} is not resolved")
        if isinstance(node, tree.Binary) and node.op in SAME_TYPE and node.left.type != node.right.type:
            say(node, f"{node.left.type} {node.op} {node.right.type}")
        if (
            isinstance(node, tree.Assign)
            and node.op not in ("<<", ">>")
            and node.left.type != node.right.type
        ):
            say(node, f"{node.left.type} = {node.right.type}")
        if isinstance(node, tree.VarDecl) and node.init is not None and node.init.type != node.type:
            say(node, f"{node.type} initialised with {node.init.type}")
        if isinstance(node, tree.Call):
            _call(node, say)
        if isinstance(node, tree.Transition) and node.state is None:
            say(node, "state is not resolved")
        if isinstance(node, tree.Select):
            for case in node.cases:
                whole = len(case.keys) == 1 and isinstance(case.keys[0].type, types.SetType)
                if len(case.keys) != len(node.exprs) and not whole:
                    say(case, f"{len(case.keys)} keys for {len(node.exprs)} expressions")
                if case.state is None:
                    say(case, "state is not resolved")
        if isinstance(node, tree.TableDecl):
            _table(node, say)
    return found


def _untyped(node: Any) -> Iterator[tree.Expr]:
    """Expressions that the contract says nothing about."""
    if isinstance(node, tree.Property) and node.name == "default_action":
        yield node.expr
        if isinstance(node.expr, tree.Call):
            yield node.expr.callee
    if isinstance(node, tree.Annotation):
        yield from node.exprs


def _call(node: tree.Call, say: Any) -> None:
    if not node.kind:
        return
    if node.kind not in ("header_method", "stack_method", "size_method") and node.target is None:
        say(node, f"{node.kind} without target")
    for bound in node.bound:
        if bound.expr is None:
            if not bound.param.optional and bound.param.default is None:
                say(node, f"nothing for {bound.param.name}")
        elif isinstance(bound.expr, tree.DontCare):
            continue
        elif not types.agrees(bound.expr.type, bound.param.type):
            say(node, f"{bound.param.name}: {bound.expr.type} for {bound.param.type}")
    if node.kind.endswith("_method") and node.receiver is None:
        say(node, "method without receiver")


def _table(table: tree.TableDecl, say: Any) -> None:
    for ref in table.actions:
        if ref.action is None:
            say(ref, "action is not resolved")
    for entry in table.entries:
        if len(entry.keys) != len(table.keys):
            say(entry, "wrong number of keys")
        if entry.action.action is None or len(entry.action.bound) != len(entry.action.action.params):
            say(entry, "action is not bound")
    if table.default_action is not None:
        action = table.default_action.action
        if action is None or (len(table.default_action.bound) != len(action.params)):
            say(table, "default action is not bound")
