"""From a pipeline's structured statements to the graph that BMv2 walks: tables, conditionals, and where each goes next.

Statements between two table applications become one action of a hidden table without keys; their `if`s stay inside
that action (BMv2 actions can jump). Only an `if` that holds a table application, or leads out of the stretch, becomes a
conditional node. A table that is applied in several places gets a cell that says which place it was, and conditionals
after it that look there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compiler import arith, ir

Next = str | None


@dataclass
class Conditional:
    """A two-way branch."""

    name: str
    condition: ir.Expr
    yes: Next
    no: Next
    pos: int = -1


@dataclass
class TableNode:
    """A table in the graph: where each action, or hit and miss, leads."""

    table: ir.Table
    after: dict[str, Next]
    """Per action name, or for `__HIT__` and `__MISS__`."""
    base: Next
    """When no action ran."""


@dataclass
class Graph:
    """A pipeline."""

    name: str
    first: Next
    tables: list[TableNode] = field(default_factory=list)
    conditionals: list[Conditional] = field(default_factory=list)
    pos: int = -1


class Names:
    """Unique names for hidden tables, actions and conditionals of one program."""

    def __init__(self, stem: str, line_of: Callable[[int], int]) -> None:
        self.stem = stem
        self.line_of = line_of
        self.used: set[str] = set()
        self.nodes = 0

    def unique(self, base: str) -> str:
        """`base`, or `base_N` when it is taken."""
        name, count = base, 0
        while name in self.used:
            name = f"{base}_{count}"
            count += 1
        self.used.add(name)
        return name

    def hidden(self, pos: int) -> str:
        """Name for a hidden action that begins at `pos`."""
        return self.unique(f"{self.stem}l{self.line_of(pos)}" if pos >= 0 else f"{self.stem}_act")

    def node(self) -> str:
        """Name for a conditional."""
        self.nodes += 1
        return self.unique(f"node_{self.nodes}")


class UnsupportedFlow(Exception):
    """A shape of control flow that BMv2's graph cannot take; `pos` is where."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos
        self.message = message


def first_pos(stmts: list[ir.Stmt]) -> int:
    """The first known source position."""
    for stmt in stmts:
        if stmt.pos >= 0:
            return stmt.pos
        for inner in ir.inner_lists(stmt):
            found = first_pos(inner)
            if found >= 0:
                return found
    return -1


class GraphBuilder:
    """Builds the graph of one pipeline, from its end to its start."""

    def __init__(
        self, names: Names, new_cell: Callable[[str, int], ir.Field], actions: list[ir.Action]
    ) -> None:
        self.names = names
        self.new_cell = new_cell
        self.actions = actions
        """Hidden actions are appended here."""
        self.labels: dict[int, Next] = {}
        self.tables: list[TableNode] = []
        self.conditionals: list[Conditional] = []
        self.applications: dict[ir.Table, list[ir.Apply]] = {}
        self.places: dict[ir.Table, ir.Field] = {}
        self.arms: dict[ir.Apply, tuple[dict[str, Next], Next]] = {}
        self._open: dict[int, tuple[bool, frozenset[int]]] = {}

    def build(self, pipeline: ir.Pipeline) -> Graph:
        """The graph of `pipeline`."""
        self._count(pipeline.body)
        self.labels[0] = None
        first = self._sequence(pipeline.body, None)
        for table, places in self.applications.items():
            if len(places) > 1:
                self._dispatch(table, places)
        self.tables.reverse()
        self.conditionals.reverse()
        self._must_end(first)
        return Graph(pipeline.name, first, self.tables, self.conditionals, pipeline.pos)

    def _must_end(self, first: Next) -> None:
        """Every way through the graph comes to its end: a packet passes a table once. Raises UnsupportedFlow."""
        leads: dict[str, list[str]] = {}
        for node in self.tables:
            leads[node.table.name] = [to for to in (*node.after.values(), node.base) if to is not None]
        for branch in self.conditionals:
            leads[branch.name] = [to for to in (branch.yes, branch.no) if to is not None]
        done: set[str] = set()
        way: dict[str, list[str]] = {} if first is None else {first: list(leads[first])}
        while way:
            name = next(reversed(way))
            if not way[name]:
                done.add(name)
                del way[name]
                continue
            to = way[name].pop()
            if to in way:
                names = list(way)
                raise self._endless(set(names[names.index(to) :]))
            if to not in done:
                way[to] = list(leads[to])

    def _endless(self, circle: set[str]) -> UnsupportedFlow:
        for table, places in self.applications.items():
            if table.name in circle and len(places) > 1:
                message = f"a packet could come to the table {table.name} twice; the target looks it up once: make it"
                return UnsupportedFlow(
                    places[-1].pos, f"{message} two tables, or apply it in branches of one if"
                )
        (pos, name) = next((p[0].pos, t.name) for t, p in self.applications.items() if t.name in circle)
        return UnsupportedFlow(
            pos, f"the table {name} in a loop: the target looks a packet up once in a table"
        )

    # ------------------------------------------------------------------ what can stay in one action

    def _count(self, stmts: list[ir.Stmt]) -> None:
        for stmt in stmts:
            if isinstance(stmt, ir.Apply):
                self.applications.setdefault(stmt.table, []).append(stmt)
            for body in ir.inner_lists(stmt):
                self._count(body)

    def _shape(self, stmt: ir.Stmt) -> tuple[bool, frozenset[int]]:
        """Whether it applies a table, and the labels it leaves to outside."""
        found = self._open.get(id(stmt))
        if found is None:
            applies = isinstance(stmt, ir.Apply)
            leaves: set[int] = {stmt.label} if isinstance(stmt, ir.Leave) else set()
            for body in ir.inner_lists(stmt):
                for inner in body:
                    inner_applies, inner_leaves = self._shape(inner)
                    applies = applies or inner_applies
                    leaves |= inner_leaves
            if isinstance(stmt, ir.Block):
                leaves.discard(stmt.label)
            found = self._open[id(stmt)] = (applies, frozenset(leaves))
        return found

    def _closed(self, stmt: ir.Stmt) -> bool:
        applies, leaves = self._shape(stmt)
        return not applies and not leaves

    # ------------------------------------------------------------------ nodes

    def _sequence(self, stmts: list[ir.Stmt], after: Next) -> Next:
        for index, stmt in enumerate(stmts):
            if isinstance(stmt, ir.Leave):
                after = self.labels[stmt.label]
                stmts = stmts[:index]
                break
        end = len(stmts)
        while end > 0:
            start = end
            while start > 0 and self._closed(stmts[start - 1]):
                start -= 1
            if start < end:
                after = self._stretch(stmts[start:end], after)
                end = start
            else:
                after = self._node(stmts[end - 1], after)
                end -= 1
        return after

    def _stretch(self, stmts: list[ir.Stmt], after: Next) -> Next:
        pos = first_pos(stmts)
        name = self.names.hidden(pos)
        action = ir.Action(name, [], stmts, pos, hidden=True)
        self.actions.append(action)
        table_name = self.names.unique(f"tbl_{name}")
        table = ir.Table(table_name, [], [action], action, [], True, 1024, pos=pos)
        self.tables.append(TableNode(table, {name: after}, after))
        return table_name

    def _node(self, stmt: ir.Stmt, after: Next) -> Next:
        if isinstance(stmt, ir.If):
            yes = self._sequence(stmt.then, after)
            no = self._sequence(stmt.otherwise, after)
            if yes == no:
                return yes
            name = self.names.node()
            self.conditionals.append(Conditional(name, stmt.condition, yes, no, stmt.pos))
            return name
        if isinstance(stmt, ir.Block):
            self.labels[stmt.label] = after
            return self._sequence(stmt.body, after)
        if isinstance(stmt, ir.Loop):
            name = self.names.node()
            head = Conditional(name, ir.TRUE, None, None, stmt.pos)
            self.conditionals.append(head)
            head.yes = head.no = self._sequence(stmt.body, name)
            return name
        if isinstance(stmt, ir.Apply):
            return self._apply(stmt, after)
        raise AssertionError(f"no node for {stmt}")

    def _apply(self, stmt: ir.Apply, after: Next) -> Next:
        table = stmt.table
        arms: dict[str, Next] = {}
        base = after
        if stmt.hit is not None or stmt.miss is not None:
            arms["__HIT__"] = self._sequence(stmt.hit or [], after)
            arms["__MISS__"] = self._sequence(stmt.miss or [], after)
            base = arms["__MISS__"]
        else:
            chosen = stmt.actions or {}
            other = after if stmt.otherwise is None else self._sequence(stmt.otherwise, after)
            done: dict[int, Next] = {id(stmt.otherwise): other}
            for action in reversed(table.actions):
                arm = chosen.get(action)
                if arm is None:
                    arms[action.name] = other
                    continue
                if id(arm) not in done:
                    done[id(arm)] = self._sequence(arm, after)
                arms[action.name] = done[id(arm)]
            arms = {action.name: arms[action.name] for action in table.actions}
        places = self.applications[table]
        if len(places) == 1:
            self.tables.append(TableNode(table, arms, base))
            return table.name
        self.arms[stmt] = (arms, base)
        if table not in self.places:
            self.places[table] = self.new_cell(
                f"$applied.{table.name}", max(1, (len(places) - 1).bit_length())
            )
        cell = self.places[table]
        which = ir.Assign(cell, arith.const(places.index(stmt), cell.type), pos=stmt.pos)
        return self._stretch([which], table.name)

    def _dispatch(self, table: ir.Table, places: list[ir.Apply]) -> None:
        """One table node for all applications, and conditionals that find the way on from each."""
        reached = [place for place in places if place in self.arms]
        if not reached:
            return
        kinds = {"__HIT__" in self.arms[place][0] for place in reached}
        if len(kinds) > 1:
            plain = all(
                "__HIT__" in self.arms[place][0] or len(set(self.arms[place][0].values())) <= 1
                for place in reached
            )
            if not plain:
                message = f"table {table.name} is applied once for hit or miss and once for its action: not supported"
                raise UnsupportedFlow(reached[-1].pos, message)
            for place in reached:
                arms, base = self.arms[place]
                if "__HIT__" not in arms:
                    self.arms[place] = ({"__HIT__": base, "__MISS__": base}, base)
        keys = list(self.arms[reached[0]][0])
        chains: dict[tuple[Next, ...], Next] = {}
        cell = self.places[table]

        def chain(targets: tuple[Next, ...]) -> Next:
            if targets in chains:
                return chains[targets]
            result = targets[-1]
            for index in range(len(targets) - 2, -1, -1):
                if targets[index] == result:
                    continue
                name = self.names.node()
                number = arith.const(places.index(reached[index]), cell.type)
                test = arith.compare("==", cell, number)
                self.conditionals.append(Conditional(name, test, targets[index], result, reached[index].pos))
                result = name
            chains[targets] = result
            return result

        arms = {key: chain(tuple(self.arms[place][0][key] for place in reached)) for key in keys}
        base = chain(tuple(self.arms[place][1] for place in reached))
        self.tables.append(TableNode(table, arms, base))
