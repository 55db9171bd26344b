"""Parser states with structured bodies, cut into straight ones: an `if` becomes a select, a sub-parser its states."""

from __future__ import annotations

from collections.abc import Callable

from compiler import arith, ir


class StateFlattener:
    """Flattens one parser."""

    def __init__(self, new_cell: Callable[[str, int], ir.Field], no_match: int) -> None:
        self.new_cell = new_cell
        self.no_match = no_match
        """Value of error.NoMatch."""
        self.out: list[ir.State] = []
        self.names: set[str] = set()
        self.labels: dict[int, ir.State] = {}
        self._no_match_state: ir.State | None = None

    def flatten(self, states: list[ir.State]) -> list[ir.State]:
        """Straight states, the start state first."""
        self._states(states, None)
        return self.out

    def _new(self, base: str) -> ir.State:
        name, count = base, 0
        while name in self.names:
            name = f"{base}_{count}"
            count += 1
        self.names.add(name)
        state = ir.State(name)
        self.out.append(state)
        return state

    def _states(self, states: list[ir.State], accept: ir.State | None) -> ir.State:
        """Flatten `states`; what they accept goes on to `accept` (None: the parser's end). Returns the first one."""
        heads = {state: self._new(state.name) for state in states}
        for state in states:
            tail = self._body(state.body, heads[state])
            if tail is None:
                continue
            tail.keys = state.keys
            tail.pos = state.pos
            for case in state.cases:
                tail.cases.append(
                    ir.Case(self._target(case.target, heads, accept), case.keys, case.value_set)
                )
            if not any(case.keys is None and case.value_set is None for case in state.cases):
                tail.cases.append(ir.Case(self._no_match_target()))
        return heads[states[0]]

    def _target(
        self, target: ir.State | None, heads: dict[ir.State, ir.State], accept: ir.State | None
    ) -> ir.State | None:
        if target is None:
            return accept
        return None if target is ir.REJECT else heads[target]

    def _no_match_target(self) -> ir.State:
        if self._no_match_state is None:
            state = self._new("noMatch")
            state.body = [ir.Verify(ir.FALSE, arith.const(self.no_match, ir.bits(32)))]
            state.cases = [ir.Case(None)]
            self._no_match_state = state
        return self._no_match_state

    def _body(self, stmts: list[ir.Stmt], current: ir.State) -> ir.State | None:
        """Append statements from `current` on; the state they end in, or None when they have left."""
        for stmt in stmts:
            if isinstance(stmt, ir.If):
                current = self._if(stmt, current)
            elif isinstance(stmt, ir.Block):
                join = self._new(f"{current.name}_end")
                self.labels[stmt.label] = join
                self._go(self._body(stmt.body, current), join)
                current = join
            elif isinstance(stmt, ir.Loop):
                head = self._new(f"{current.name}_loop")
                self._go(current, head)
                self._go(self._body(stmt.body, head), head)
                return None
            elif isinstance(stmt, ir.Leave):
                self._go(current, self.labels[stmt.label])
                return None
            elif isinstance(stmt, ir.SubParser):
                join = self._new(f"{current.name}_rest")
                self._go(current, self._states(stmt.states, join))
                current = join
            else:
                current.body.append(stmt)
        return current

    def _if(self, stmt: ir.If, current: ir.State) -> ir.State:
        key: ir.Expr = stmt.condition
        if isinstance(key, ir.Const):
            join = self._new(f"{current.name}_end")
            self._go(self._body(stmt.then if key.value else stmt.otherwise, current), join)
            return join
        if not isinstance(key, ir.Field):
            cell = self.new_cell("tmp_if", 1)
            current.body.append(ir.Assign(cell, arith.to_bits(key), pos=stmt.pos))
            key = cell
        join = self._new(f"{current.name}_end")
        yes = self._new(f"{current.name}_then") if stmt.then else join
        no = self._new(f"{current.name}_else") if stmt.otherwise else join
        current.keys = [key]
        current.cases = [ir.Case(yes, [(1, None)]), ir.Case(no)]
        if stmt.then:
            self._go(self._body(stmt.then, yes), join)
        if stmt.otherwise:
            self._go(self._body(stmt.otherwise, no), join)
        return join

    @staticmethod
    def _go(state: ir.State | None, target: ir.State) -> None:
        if state is not None:
            state.cases = [ir.Case(target)]
