"""Tables: keys, actions, entries, properties, and the ways a program applies them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compiler import arith, ir, tree, types
from compiler.instances import control_plane_name
from compiler.keynames import field_name
from compiler.lower_blocks import instantiate, make, meter_type
from compiler.lower_call import bind, inline, leave_through
from compiler.lower_context import Scope
from compiler.lower_entries import entries
from compiler.lower_expr import read
from compiler.storage import scalar_of
from compiler.values import ExternObject, Value, leaves

DEFAULT_SIZE = 1024


@dataclass(eq=False)
class BuiltTable:
    """A table and what each application must do before it."""

    table: ir.Table
    actions: dict[tree.ActionDecl, ir.Action]
    cells: list[ir.Field | None]
    """Per key element: where its value is put first, None when the field itself is looked up."""
    exit_flag: ir.Field | None = None
    """Set by actions that exit, when the caller still has copies to make."""
    can_exit: list[bool] = field(default_factory=lambda: [False])


# --------------------------------------------------------------------------- application


def _prepare(scope: Scope, node: tree.Call) -> BuiltTable:
    """Evaluate the keys; the table, built when it is applied for the first time."""
    decl = node.target
    assert isinstance(decl, tree.TableDecl)
    if scope.block not in ("ingress", "egress"):
        scope.fail(node, f"a table in the {scope.block} is not supported")
    if scope.in_table_action:
        scope.fail(node, "a table cannot be applied in an action")
    key = (scope.instance, decl)
    built: BuiltTable | None = scope.low.tables.get(key)
    if built is None:
        built = scope.low.tables[key] = _build(scope, decl)
    for element, cell in zip(decl.keys, built.cells, strict=True):
        if cell is not None:
            scope.emit(ir.Assign(cell, _key_value(scope, element), pos=element.pos))
    if built.exit_flag is not None and built.can_exit[0]:
        scope.emit(ir.Assign(built.exit_flag, ir.FALSE, pos=node.pos))
    return built


def _key_value(scope: Scope, element: tree.KeyElement) -> ir.Expr:
    return read(scope, element.expr)


def _after_exit(scope: Scope, built: BuiltTable, node: tree.Node) -> list[ir.Stmt]:
    """What must run after the table because an action may have called `exit`."""
    if not built.can_exit[0]:
        return []
    scope.exit_used[0] = True
    if built.exit_flag is None:
        return []
    gone = scope.derive(out=[])
    leave_through(gone, node)
    return [ir.If(built.exit_flag, gone.out, [], pos=node.pos)]


def apply_table(scope: Scope, node: tree.Call) -> None:
    """`t.apply();`"""
    built = _prepare(scope, node)
    scope.emit(ir.Apply(built.table, pos=node.pos))
    scope.out.extend(_after_exit(scope, built, node))


def apply_in_expression(scope: Scope, node: tree.Call, name: str, at: tree.Node) -> Value:
    """`t.apply().hit` or `.miss` in an expression."""
    if name not in ("hit", "miss"):
        scope.fail(at, f"{name} is only supported in a switch")
    built = _prepare(scope, node)
    cell = scope.temporary(ir.BOOL, name)
    yes: list[ir.Stmt] = [ir.Assign(cell, arith.boolean(name == "hit"), pos=node.pos)]
    no: list[ir.Stmt] = [ir.Assign(cell, arith.boolean(name == "miss"), pos=node.pos)]
    scope.emit(ir.Apply(built.table, hit=yes, miss=no, pos=node.pos))
    scope.out.extend(_after_exit(scope, built, node))
    return cell


def branch_on_apply(scope: Scope, node: tree.If) -> bool:
    """`if (t.apply().hit) …` without a cell in between. False: it is not of that shape."""
    from compiler.lower_stmt import statement

    condition: tree.Expr = node.condition
    positive = True
    while isinstance(condition, tree.Unary) and condition.op == "!":
        positive = not positive
        condition = condition.expr
    if not (isinstance(condition, tree.Member) and condition.name in ("hit", "miss")):
        return False
    call = condition.expr
    if not (isinstance(call, tree.Call) and call.kind == "table_apply"):
        return False
    built = _prepare(scope, call)
    yes, no = scope.derive(out=[]), scope.derive(out=[])
    yes.out.extend(_after_exit(scope, built, node))
    no.out.extend(_after_exit(scope, built, node))
    statement(yes, node.then)
    if node.otherwise is not None:
        statement(no, node.otherwise)
    if (condition.name == "hit") == positive:
        scope.emit(ir.Apply(built.table, hit=yes.out, miss=no.out, pos=call.pos))
    else:
        scope.emit(ir.Apply(built.table, hit=no.out, miss=yes.out, pos=call.pos))
    return True


def switch_on_action(scope: Scope, node: tree.Switch) -> None:
    """`switch (t.apply().action_run) {…}`"""
    from compiler.lower_stmt import statement

    subject = node.expr
    if not (isinstance(subject, tree.Member) and isinstance(subject.expr, tree.Call)):
        scope.fail(node, "switch on this value is not supported")
    built = _prepare(scope, subject.expr)
    arms: dict[ir.Action, list[ir.Stmt]] = {}
    otherwise: list[ir.Stmt] | None = None
    pending: list[tree.Expr] = []
    for case in node.cases:
        pending.append(case.label)
        if case.body is None:
            continue
        inner = scope.derive(out=[])
        inner.out.extend(_after_exit(scope, built, node))
        statement(inner, case.body)
        for label in pending:
            if isinstance(label, tree.DefaultExpr):
                otherwise = inner.out
            elif isinstance(label, tree.Name) and label.decl in built.actions:
                arms[built.actions[label.decl]] = inner.out
            else:
                scope.fail(label, "this label is not an action of the table")
        pending = []
    if otherwise is None:
        otherwise = _after_exit(scope, built, node)
    scope.emit(ir.Apply(built.table, actions=arms, otherwise=otherwise, pos=subject.expr.pos))


# --------------------------------------------------------------------------- building


def _build(scope: Scope, decl: tree.TableDecl) -> BuiltTable:
    name = control_plane_name(decl, scope.path)
    cells: list[ir.Field | None] = []
    keys: list[ir.Key] = []
    for element in decl.keys:
        cell, key = _key(scope, element, name)
        cells.append(cell)
        keys.append(key)
    flag = None
    if scope.depth > 0:
        flag = scope.temporary(ir.BOOL, f"{decl.name}.exit")
    table = ir.Table(name, keys, [], None, [], False, DEFAULT_SIZE, pos=decl.pos)
    built = BuiltTable(table, {}, cells, flag)
    for ref in decl.actions:
        if ref.action is None:
            scope.fail(ref, f"action {ref.name} is not known")
        if ref.action not in built.actions:
            built.actions[ref.action] = _action(scope, decl, ref, built)
    table.actions = list(built.actions.values())
    names = [action.name for action in table.actions]
    if len(set(names)) != len(names):
        scope.fail(decl, f"two actions of table {decl.name} have the same control-plane name")
    _properties(scope, decl, built)
    _default(scope, decl, built)
    if decl.has_entries:
        table.entries = entries(scope, decl, keys, built.actions)
        table.size = len(table.entries)
    if not table.size:
        table.size = DEFAULT_SIZE
    scope.low.claim("table", name, decl.pos)
    unit = scope.low.unit
    for array in [*unit.counters, *unit.meters]:
        if array.get("binding") == table.name:
            array["size"] = table.size
    return built


def _key(scope: Scope, element: tree.KeyElement, table: str) -> tuple[ir.Field | None, ir.Key]:
    probe = scope.derive(out=[])
    value = read(probe, element.expr)
    if element.match_kind not in ("exact", "lpm", "ternary", "range", "optional", "selector"):
        scope.fail(element, f"match kind {element.match_kind} is not supported")
    if value.type.kind == "varbit":
        scope.fail(element, "a varbit as a table key is not supported")
    name = _key_name(scope, element)
    if isinstance(value, ir.Field) and not probe.out:
        return None, ir.Key(value, element.match_kind, name)
    cell = scope.temporary(value.type, "key")
    return cell, ir.Key(cell, element.match_kind, name)


def _key_name(scope: Scope, element: tree.KeyElement) -> str:
    name = field_name(element)
    if name is None:
        scope.fail(element.expr, 'this key is too complex to have a name; give it one: @name("…")')
    return name


def _action(scope: Scope, decl: tree.TableDecl, ref: tree.ActionRef, built: BuiltTable) -> ir.Action:
    """The action as this table runs it; shared by the tables of an instance unless they fix arguments."""
    from compiler.lower_stmt import statements

    node = ref.action
    assert node is not None
    fixed = [b for b in ref.bound if b.param.direction]
    local = node in scope.env or _is_local(scope, node)
    flag = built.exit_flag
    key: tuple[object, ...] = (scope.instance if local else None, node, decl if fixed else None)
    low = scope.low
    found = low.actions.get(key)
    if found is not None and not found.can_exit:
        return found
    if found is not None:
        key = (*key, decl)
    name = control_plane_name(node, scope.path if local else "")
    action = ir.Action(name, [], [], node.pos)
    env = dict(scope.env)
    for param in node.params:
        if param.direction:
            continue
        scalar = scalar_of(scope.type(param))
        if scalar is None or scalar.kind == "varbit":
            scope.fail(param, f"an action parameter of type {param.type} is not supported")
        env[param] = ir.Param(len(action.params), scalar)
        action.params.append((_param_name(param), scalar))
    inner = scope.derive(
        out=action.body,
        env=env,
        cells={},
        in_table_action=True,
        return_label=0,
        exit_label=0,
        exit_used=[False],
        exit_flag=flag,
        result=None,
    )
    if fixed:
        storage = _fixed_storage(scope, node)
        bound = bind(inner, fixed, ref, False, storage)
        directed = [p for p in node.params if p.direction]
        for param, value in zip(directed, bound.values, strict=True):
            env[param] = value
        inline(inner, inner, bound, ref, lambda body: statements(body, node.body.statements))
    else:
        statements(inner, node.body.statements)
    ir.trim_tail(action.body, 0)
    action.can_exit = inner.exit_used[0]
    if action.can_exit:
        built.can_exit[0] = True
    low.actions[key] = action
    low.unit.actions.append(action)
    return action


def _is_local(scope: Scope, node: tree.ActionDecl) -> bool:
    block = getattr(scope.instance, "decl", None)
    return block is not None and node in block.locals


def _fixed_storage(scope: Scope, node: tree.ActionDecl) -> Any:
    def storage(param: types.ParamType, type_: types.Type) -> Value:
        return scope.new(f"{scope.path}.{node.name}.{param.name}", type_, node)

    return storage


def _param_name(param: tree.Param) -> str:
    annotation = param.annotation("name")
    return (annotation.string if annotation is not None else None) or param.name


def _default(scope: Scope, decl: tree.TableDecl, built: BuiltTable) -> None:
    table = built.table
    ref = decl.default_action
    if ref is None or ref.action is None:
        return
    if ref.action not in built.actions:
        built.actions[ref.action] = _action(scope, decl, ref, built)
        table.actions = list(built.actions.values())
    table.default = built.actions[ref.action]
    table.default_const = decl.default_action_const
    table.default_args = action_arguments(scope, ref)
    if table.profile is not None:
        if decl.property("default_action") is not None:
            scope.low.warn(
                ref.pos, "the target does not support default_action for a table with an action profile"
            )
        table.default = None


def action_arguments(scope: Scope, ref: tree.ActionRef) -> list[int]:
    """The constants for an action's run-time parameters."""
    values: list[int] = []
    for bound in ref.bound:
        if bound.param.direction:
            continue
        if bound.expr is None:
            scope.fail(ref, f"parameter {bound.param.name} of {ref.name} has no value")
        for leaf in leaves(read(scope, bound.expr)):
            if not isinstance(leaf, ir.Const):
                scope.fail(ref, f"parameter {bound.param.name} of {ref.name} must be a constant")
            values.append(leaf.value)
    return values


# --------------------------------------------------------------------------- properties


def _properties(scope: Scope, decl: tree.TableDecl, built: BuiltTable) -> None:
    table = built.table
    for prop in decl.properties:
        if prop.name == "size":
            table.size = _constant(scope, prop)
        elif prop.name == "support_timeout":
            table.support_timeout = bool(_constant(scope, prop))
        elif prop.name in ("implementation", "counters", "meters"):
            extern = _extern(scope, decl, prop)
            _attach(scope, prop, extern, built)


def _constant(scope: Scope, prop: tree.Property) -> int:
    value = read(scope, prop.expr)
    if not isinstance(value, ir.Const):
        scope.fail(prop, f"{prop.name} must be a constant")
    return value.value


def _extern(scope: Scope, decl: tree.TableDecl, prop: tree.Property) -> ExternObject:
    expr = prop.expr
    value: Value | None = None
    if isinstance(expr, tree.Call) and expr.kind == "constructor":
        name = control_plane_name(prop, "") if prop.annotation("name") is not None else ""
        base = control_plane_name(decl, scope.path)
        if not name:
            name = f"{base}.{prop.name}"
        elif scope.path:
            name = f"{scope.path}.{name}"
        value = make(scope, expr, name, None)
    elif isinstance(expr, tree.Name):
        value = scope.env.get(expr.decl) or scope.low.globals.get(expr.decl)
        if value is None and isinstance(expr.decl, tree.InstanceDecl):
            value = scope.env[expr.decl] = instantiate(scope, expr.decl)
    if not isinstance(value, ExternObject):
        scope.fail(prop, f"property {prop.name} needs an extern instance")
    return value


def _attach(scope: Scope, prop: tree.Property, extern: ExternObject, built: BuiltTable) -> None:
    unit = scope.low.unit
    table = built.table
    kind = extern.type.name
    if prop.name == "counters":
        if kind != "direct_counter":
            scope.fail(prop, f"counters needs a direct_counter, not {kind}")
        if any(c["name"] == extern.name for c in unit.counters):
            scope.fail(prop, f"direct counter {extern.name} is attached to more than one table")
        table.counters = True
        unit.counters.append(
            {
                "name": extern.name,
                "is_direct": True,
                "binding": table.name,
                "size": table.size,
                "pos": extern.pos,
            }
        )
    elif prop.name == "meters":
        if kind != "direct_meter":
            scope.fail(prop, f"meters needs a direct_meter, not {kind}")
        if any(m["name"] == extern.name for m in unit.meters):
            scope.fail(prop, f"direct meter {extern.name} is attached to more than one table")
        table.meter = extern.name
        cell = meter_cell(scope, extern)
        unit.meters.append(
            {
                "name": extern.name,
                "is_direct": True,
                "rate_count": 2,
                "type": meter_type(scope, extern),
                "size": table.size,
                "binding": table.name,
                "result_target": [cell.header, cell.field],
                "pos": extern.pos,
            }
        )
    elif kind in ("action_profile", "action_selector"):
        table.profile = extern.name
        table.selector = kind == "action_selector"
        _profile(scope, prop, extern, built)
    else:
        scope.fail(prop, f"implementation needs an action_profile or action_selector, not {kind}")


def meter_cell(scope: Scope, extern: ExternObject) -> ir.Field:
    """Where a direct meter leaves its colour."""
    cell = scope.low.meter_cells.get(extern.name)
    if cell is None:
        element = scalar_of(extern.type.args[0]) if extern.type.args else None
        if element is None:
            raise scope.low.error(
                extern.pos, f"the result type of direct meter {extern.name} is not supported"
            )
        cell = scope.low.meter_cells[extern.name] = scope.low.storage.cell(f"{extern.name}.color", element)
    return cell


def _profile(scope: Scope, prop: tree.Property, extern: ExternObject, built: BuiltTable) -> None:
    profiles = scope.low.unit.profiles.setdefault(scope.block, [])
    inputs = [key.field for key in built.table.keys if key.match == "selector"]
    for profile in profiles:
        if profile["name"] == extern.name:
            if built.table.selector and profile["inputs"] != inputs:
                scope.fail(
                    prop, f"tables that share action selector {extern.name} must have the same selector keys"
                )
            return
    size = extern.arguments.get("size")
    if not isinstance(size, int):
        scope.fail(prop, f"the size of {extern.name} must be a constant")
    item: dict[str, Any] = {"name": extern.name, "max_size": size, "pos": extern.pos, "inputs": inputs}
    if built.table.selector:
        algorithm = extern.arguments.get("algorithm")
        if not isinstance(algorithm, types.EnumValue):
            scope.fail(prop, f"the algorithm of {extern.name} must be a HashAlgorithm")
        item["algorithm"] = algorithm.name
    profiles.append(item)
