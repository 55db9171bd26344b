"""Checking of statements."""

from __future__ import annotations

from collections.abc import Sequence

from compiler import tree, types
from compiler.scope import did_you_mean
from compiler.typecheck_base import bits_of, plural
from compiler.typecheck_constructors import ConstructorChecker
from compiler.types import UnknownType

SHIFTS = ("<<", ">>")


class StatementChecker(ConstructorChecker):
    """Blocks and what is in them."""

    def constant(self, decl: tree.ConstDecl) -> None:
        """`const T name = value;` (see typecheck)."""
        raise NotImplementedError

    def instance(self, decl: tree.InstanceDecl) -> None:
        """`T(…) name;` (see typecheck)."""
        raise NotImplementedError

    def block(self, block: tree.Block) -> None:
        """A block, in a scope of its own."""
        with self.inner_scope():
            self.statements(block.statements)

    def statements(self, statements: Sequence[tree.Statement | tree.Decl]) -> None:
        """Statements in the current scope."""
        for statement in statements:
            self.statement(statement)

    def statement(self, s: tree.Statement | tree.Decl) -> None:
        """One statement or local declaration."""
        if isinstance(s, tree.Assign):
            self._assign(s)
        elif isinstance(s, tree.CallStatement):
            self.expr(s.call)
            if s.call.kind == "constructor":
                self.error(s.pos, "an object that is made and dropped has no effect; declare it with a name")
        elif isinstance(s, tree.If):
            self._if(s)
        elif isinstance(s, tree.Block):
            self.block(s)
        elif isinstance(s, tree.VarDecl):
            hidden = self.scope.lookup(s.name)
            if hidden and isinstance(hidden[0], tree.Param):
                self.error(
                    s.pos, f"'{s.name}' is the name of a parameter here; call the variable something else"
                )
            self.variable(s)
        elif isinstance(s, tree.ConstDecl):
            self.constant(s)
        elif isinstance(s, tree.Return):
            self._return(s)
        elif isinstance(s, tree.Exit):
            if self.body.kind in ("parser", "function", "method"):
                self.error(s.pos, f"exit is not allowed in a {self.body.kind}")
        elif isinstance(s, tree.Switch):
            self._switch(s)
        elif isinstance(s, tree.For):
            self._for(s)
        elif isinstance(s, tree.ForIn):
            self._for_in(s)
        elif isinstance(s, tree.Break | tree.Continue):
            if self.body.loops == 0:
                word = "break" if isinstance(s, tree.Break) else "continue"
                self.error(s.pos, f"{word} is only allowed in a for loop")
        elif isinstance(s, tree.InstanceDecl):
            self.error(s.pos, f"'{s.name}': an instance is declared outside of blocks, before apply")
            self.instance(s)

    def variable(self, decl: tree.VarDecl) -> None:
        """`T name [= value];`"""
        decl.type = self.resolve(decl.ref)
        if isinstance(
            decl.type,
            types.VoidType | types.InfIntType | types.StringType | types.ExternType | types.ApplicableType,
        ):
            hint = "; make it const" if isinstance(decl.type, types.InfIntType | types.StringType) else ""
            self.error(decl.pos, f"a variable cannot have the type {decl.type}{hint}")
            decl.type = types.UNKNOWN
        if decl.init is not None:
            decl.init = self.convert(self.expr(decl.init), decl.type, f"the value of '{decl.name}'")
        self.declare(decl)

    def _assign(self, s: tree.Assign) -> None:
        s.left = self.expr(s.left)
        s.right = self.expr(s.right)
        left, right = s.left.type, s.right.type
        if isinstance(left, UnknownType):
            return
        if not self.is_lvalue(s.left):
            self.error(s.left.pos, f"{self.not_lvalue(s.left)}")
            return
        if isinstance(left, types.ExternType | types.TableType | types.ApplicableType | types.SetType):
            self.error(s.left.pos, f"a value of type {left} cannot be assigned")
            return
        if isinstance(right, UnknownType):
            return
        if isinstance(right, types.VoidType):
            self.error(s.right.pos, "this call has no result to assign")
            return
        if s.op:
            self._op_assign(s)
        else:
            s.right = self.convert(s.right, left, "the assigned value")

    def _op_assign(self, s: tree.Assign) -> None:
        left = bits_of(s.left.type)
        if left is None or left is not s.left.type:
            self.error(s.pos, f"{s.op}= needs bit<N> or int<N> on its left, not {s.left.type}")
            return
        if s.op in SHIFTS:
            amount = s.right
            if isinstance(amount.type, types.InfIntType):
                if amount.value is None or amount.value < 0:
                    self.error(amount.pos, "a shift amount must be a positive number")
            elif not isinstance(amount.type, types.BitType) or amount.type.signed:
                self.error(amount.pos, f"a shift amount must be bit<N> or a constant, not {amount.type}")
            return
        if s.op in "/%" and left.signed:
            self.error(s.pos, f"{s.op}= is not defined for signed numbers")
            return
        s.right = self.convert(s.right, s.left.type, f"the right side of {s.op}=")

    def condition(self, expr: tree.Expr, what: str) -> tree.Expr:
        """A checked condition."""
        expr = self.expr(expr)
        if not isinstance(expr.type, types.BoolType | UnknownType):
            hint = ""
            if isinstance(expr.type, types.BitType | types.InfIntType):
                hint = " (compare it with 0)"
            elif isinstance(expr.type, types.ApplyResultType):
                hint = " (use apply().hit or apply().miss)"
            self.error(expr.pos, f"the condition of {what} must be a bool, not {expr.type}{hint}")
        return expr

    def _if(self, s: tree.If) -> None:
        s.condition = self.condition(s.condition, "if")
        self._scoped(s.then)
        if s.otherwise is not None:
            self._scoped(s.otherwise)

    def _scoped(self, s: tree.Statement) -> None:
        with self.inner_scope():
            self.statement(s)

    def _return(self, s: tree.Return) -> None:
        if self.body.kind == "parser":
            self.error(s.pos, "return is not allowed in a parser; use a transition")
            return
        result = self.body.result
        if s.expr is None:
            if not isinstance(result, types.VoidType | UnknownType):
                self.error(s.pos, f"'{self.body.name}' returns {result}; give return a value")
            return
        s.expr = self.expr(s.expr)
        if isinstance(result, types.VoidType):
            self.error(
                s.expr.pos, f"{'the function' if self.body.kind == 'function' else 'this'} returns no value"
            )
            return
        s.expr = self.convert(s.expr, result, "the returned value")

    # ------------------------------------------------------------- switch

    def _switch(self, s: tree.Switch) -> None:
        if self.body.kind == "parser":
            self.error(s.pos, "switch is not allowed in a parser; use select")
            return
        s.expr = self.expr(s.expr)
        on = s.expr.type
        if isinstance(on, UnknownType):
            for case in s.cases:
                if case.body is not None:
                    self.block(case.body)
            return
        if isinstance(on, types.ApplyResultType):
            self.error(s.expr.pos, "switch needs .action_run after apply()")
            return
        s.on_action = isinstance(on, types.ActionRunType)
        if not s.on_action and not (
            bits_of(on)
            or isinstance(
                on, types.EnumType | types.SerEnumType | types.ErrorType | types.InfIntType | types.BoolType
            )
        ):
            self.error(s.expr.pos, f"switch cannot choose by a value of type {on}")
            return
        seen: dict[object, tree.Node] = {}
        for i, case in enumerate(s.cases):
            if isinstance(case.label, tree.DefaultExpr):
                case.label.type = on
                if i != len(s.cases) - 1:
                    self.error(case.pos, "default must be the last label of a switch")
                key: object = "default"
            elif s.on_action:
                assert isinstance(on, types.ActionRunType)
                key = self._action_label(case, on)
            else:
                case.label = self.convert(self.expr(case.label), on, "the label")
                key = case.label.value
                if key is None and not isinstance(case.label.type, UnknownType):
                    self.error(case.pos, "a switch label must be known at compile time")
            if key is not None:
                if key in seen:
                    self.error(case.pos, f"this label is already used at {self.where(seen[key])}")
                seen[key] = case
            if case.body is not None:
                self.block(case.body)
        if s.cases and s.cases[-1].body is None:
            self.warn(s.cases[-1].pos, "the last label of the switch has no block")

    def _action_label(self, case: tree.SwitchCase, on: types.ActionRunType) -> object:
        table: tree.TableDecl = on.decl
        label = case.label
        if not isinstance(label, tree.Name):
            self.error(case.pos, f"a label here must be an action of the table {table.name}")
            return None
        for ref in table.actions:
            if ref.name == label.name and ref.action is not None:
                label.decl = ref.action
                label.type = ref.action.type
                return ref.action
        hint = did_you_mean(label.name, [r.name for r in table.actions])
        self.error(case.pos, f"'{label.name}' is not an action of the table {table.name}{hint}")
        return None

    # ------------------------------------------------------------- loops

    def _for(self, s: tree.For) -> None:
        with self.inner_scope():
            self.statements(s.init)
            s.condition = self.condition(s.condition, "for")
            self._loop_body(s.body)
            self.statements(s.update)

    def _loop_body(self, body: tree.Statement) -> None:
        self.body.loops += 1
        self._scoped(body)
        self.body.loops -= 1

    def _for_in(self, s: tree.ForIn) -> None:
        with self.inner_scope():
            s.var.type = self.resolve(s.var.ref)
            s.collection = self.expr(s.collection)
            collection = s.collection
            if isinstance(collection, tree.RangeExpr):
                collection.low = self.convert(collection.low, s.var.type, "the first value of the loop")
                collection.high = self.convert(collection.high, s.var.type, "the last value of the loop")
                collection.type = types.SetType(s.var.type)
                if bits_of(s.var.type) is None and not isinstance(s.var.type, UnknownType):
                    self.error(
                        s.var.pos, f"a loop over a range counts in bit<N> or int<N>, not in {s.var.type}"
                    )
            elif isinstance(collection.type, types.StackType | types.ListType):
                if collection.type.element != s.var.type and not isinstance(s.var.type, UnknownType):
                    self.error(
                        s.var.pos,
                        f"the elements of the collection are {collection.type.element}, not {s.var.type}",
                    )
            elif isinstance(collection, tree.ListExpr):
                s.collection = self.convert(collection, types.ListType(s.var.type), "the collection")
            elif not isinstance(collection.type, UnknownType):
                self.error(collection.pos, f"a loop cannot go over a value of type {collection.type}")
            self.declare(s.var)
            self._loop_body(s.body)

    def always_returns(self, s: tree.Statement | tree.Decl) -> bool:
        """Whether control cannot reach the end of `s`."""
        if isinstance(s, tree.Return | tree.Exit):
            return True
        if isinstance(s, tree.Block):
            return any(map(self.always_returns, s.statements))
        if isinstance(s, tree.If):
            return (
                s.otherwise is not None and self.always_returns(s.then) and self.always_returns(s.otherwise)
            )
        if isinstance(s, tree.Switch):
            has_default = any(isinstance(c.label, tree.DefaultExpr) for c in s.cases)
            return has_default and all(self.always_returns(c.body) for c in s.cases if c.body is not None)
        return False


__all__ = ["StatementChecker", "plural"]
