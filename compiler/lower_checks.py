"""Checksum verification and computation: controls that BMv2 runs as lists of checksums, each with a condition."""

from __future__ import annotations

from compiler import arith, ir, tree, types
from compiler.lower_call import bind, block_object
from compiler.lower_context import Scope
from compiler.lower_expr import lower, read, rvalue
from compiler.lower_extern import HASHES, calculation_name, flat_fields
from compiler.values import Value

CHECKSUM_CALLS = {
    "verify_checksum": (True, False),
    "verify_checksum_with_payload": (True, True),
    "update_checksum": (False, False),
    "update_checksum_with_payload": (False, True),
}


def checksums(scope: Scope, node: tree.Statement | tree.Decl, condition: ir.Expr = ir.TRUE) -> None:
    """Statements of a checksum control; `condition` is that of the enclosing `if`s."""
    if isinstance(node, tree.Block):
        for item in node.statements:
            checksums(scope, item, condition)
    elif isinstance(node, tree.If):
        test = _pure(scope, node.condition)
        checksums(scope, node.then, arith.and_(condition, test))
        if node.otherwise is not None:
            checksums(scope, node.otherwise, arith.and_(condition, arith.not_(test)))
    elif isinstance(node, tree.CallStatement):
        _checksum_call(scope, node.call, condition)
    elif not isinstance(node, tree.Empty | tree.ConstDecl):
        scope.fail(node, f"only checksum calls are supported in the {scope.block} checksum control")


def _pure(scope: Scope, node: tree.Expr) -> ir.Expr:
    probe = scope.derive(out=[])
    value = read(probe, node)
    if probe.out:
        scope.fail(node, "computations are not supported in a checksum control")
    return value


def _checksum_call(scope: Scope, node: tree.Call, condition: ir.Expr) -> None:
    if node.kind == "control_apply":
        block = block_object(scope, node)
        inner = enter(scope, node)
        assert isinstance(block.decl, tree.ControlDecl)
        checksums(inner, block.decl.body, condition)
        return
    name = node.method or getattr(node.target, "name", "")
    if node.kind != "extern_function" or name not in CHECKSUM_CALLS:
        scope.fail(node, f"a call of {name} is not supported in the {scope.block} checksum control")
    verify, payload = CHECKSUM_CALLS[name]
    if verify != (scope.block == "verify"):
        scope.fail(node, f"{name} is not supported in the {scope.block} checksum control")
    arguments = [b.expr for b in node.bound]
    test_node, data_node, target_node, algorithm_node = arguments
    assert test_node is not None and data_node is not None
    assert target_node is not None and algorithm_node is not None
    algorithm = algorithm_node.value
    if not isinstance(algorithm, types.EnumValue) or algorithm.name not in HASHES:
        scope.fail(node, "the algorithm must be a constant HashAlgorithm")
    target = lower(scope, target_node)
    if not isinstance(target, ir.Field):
        scope.fail(target_node, "the checksum must be a field of a header or of the metadata")
    probe = scope.derive(out=[])
    data = rvalue(probe, lower(probe, data_node), data_node)
    inputs = flat_fields(probe, data, data_node)
    if probe.out or not all(isinstance(i, ir.Const | ir.Field) for i in inputs):
        scope.fail(
            data_node, f"computations are not supported in the data of {name}: only fields and constants"
        )
    unit, low = scope.low.unit, scope.low
    calculation = calculation_name(low)
    inputs = [arith.to_bits(i) if isinstance(i, ir.Const) and i.type.kind == "bool" else i for i in inputs]
    unit.calculations.append(ir.Calculation(calculation, algorithm.name, inputs, payload, node.pos))
    number = low.number("cksum")
    condition = arith.and_(condition, _pure(scope, test_node))
    cksum = f"cksum_{number - 1}" if number else "cksum"
    unit.checksums.append(ir.Checksum(cksum, target, calculation, verify, condition, node.pos))


def enter(scope: Scope, node: tree.Call) -> Scope:
    """The scope of a control that is applied in a checksum control or deparser: its parameters are the arguments."""
    from compiler.lower_blocks import declare_locals

    block = block_object(scope, node)

    def storage(param: types.ParamType, type_: types.Type) -> Value:
        scope.fail(node, f"argument {param.name} would have to be copied, which is not supported here")

    before = len(scope.out)
    bound = bind(scope, node.bound, node, True, storage)
    for param, value in zip(block.decl.params, bound.values, strict=True):
        block.env[param] = value
    inner = scope.derive(env=block.env, path=block.name, cells=block.cells, instance=block)
    declare_locals(inner, block)
    if len(scope.out) != before:
        scope.fail(node, "variables in this control are not supported")
    return inner
