"""What of a program the control plane sees: tables, actions, extern objects and digests, in order, with their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from compiler import tree, types
from compiler.errors import CompileError
from compiler.instances import Instance, Instances, instantiate, join_name, local_name
from compiler.p4info_ids import SymbolTable
from compiler.p4info_types import TypeTable
from compiler.visit import expressions_of, live_statements

EXTERNS = {
    "counter": "counter",
    "direct_counter": "direct_counter",
    "meter": "meter",
    "direct_meter": "direct_meter",
    "register": "register",
    "action_profile": "action_profile",
    "action_selector": "action_profile",
}
"""v1model extern -> kind of P4Info object."""


class Collector:
    """Finds everything and numbers it."""

    def __init__(self, program: tree.TypedProgram) -> None:
        self.program = program
        self.source = program.source
        self.instances: Instances = instantiate(program)
        self.items: list[tuple[tree.Decl | None, Instance]] = [(None, i) for i in self.instances.top]
        """Actions, tables, value sets and extern objects (without a declaration), in order."""
        for instance in self.instances.pipeline.values():
            self.items += instance.expanded()
        self.types = TypeTable(self.source, program.errors)
        self.symbols = SymbolTable(self.source)
        self.global_actions = {d for d in program.tree.decls if isinstance(d, tree.ActionDecl)}
        self.profile_tables: dict[str, list[str]] = {}
        self.done: set[str] = set()
        """Actions that are already in the message: one entry for all tables that share an action."""
        self.digests: list[tuple[str, types.Type]] = []
        self._collect()
        self.symbols.assign()

    # ------------------------------------------------------------- what there is

    def tables(self) -> Iterator[tuple[tree.TableDecl, str]]:
        """Every table that can be applied, with the control-plane path it is in."""
        for decl, instance in self.items:
            if isinstance(decl, tree.TableDecl):
                yield decl, instance.name

    def name_of(self, action: tree.ActionDecl, path: str) -> str:
        """Control-plane name of an action."""
        return join_name("" if action in self.global_actions else path, local_name(action))

    def _collect(self) -> None:
        for decl, instance in self.items:
            if isinstance(decl, tree.TableDecl):
                self._collect_table(decl, instance)
            elif isinstance(decl, tree.ValueSetDecl):
                self.symbols.add("value_set", join_name(instance.name, local_name(decl)), decl)
            elif decl is None and isinstance(instance.target, tree.ExternDecl):
                kind = EXTERNS.get(instance.target.name)
                if kind is not None:
                    self._only_once(kind, instance.name, instance.decl)
                    self.symbols.add(kind, instance.name, instance.decl)
        for pipe in self.instances.pipeline.values():
            for instance in pipe.walk():
                if isinstance(instance.target, tree.ControlDecl):
                    self._collect_digests(instance)
        for action, instance in self.actions():
            self.symbols.add("action", self.name_of(action, instance.name), action)
        for header in self.controller_headers():
            self.symbols.add("controller_header", local_name(header), header)

    def _only_once(self, kind: str, name: str, decl: tree.Decl | None) -> None:
        """A table or object whose name another one already has (one control used twice under one name) is an error."""
        if name in self.symbols.ids[kind]:
            pos = self.program.main.pos if decl is None else decl.pos
            message = f"there are two {kind.replace('_', ' ')}s with the control-plane name '{name}'"
            raise CompileError.at(self.source, pos, message)

    def _collect_table(self, table: tree.TableDecl, instance: Instance) -> None:
        name = join_name(instance.name, local_name(table))
        self._only_once("table", name, table)
        self.symbols.add("table", name, table)
        for prop, kind in (
            ("implementation", "action_profile"),
            ("counters", "direct_counter"),
            ("meters", "direct_meter"),
        ):
            found = table.property(prop)
            if found is None:
                continue
            if isinstance(found.expr, tree.Call):
                self.symbols.add(kind, self.in_place_name(found, instance, table))
            if kind == "action_profile":
                profile = self.property_instance(found, instance, table)
                if profile is not None:
                    self.profile_tables.setdefault(profile[0], []).append(name)

    def in_place_name(self, prop: tree.Property, instance: Instance, table: tree.TableDecl) -> str:
        """The name of an extern object that is made in a table property."""
        if prop.annotation("name") is None:
            message = (
                f"the object made in '{prop.name}' of the table {table.name} needs a @name to be controlled"
            )
            raise CompileError.at(self.source, prop.pos, message)
        return join_name("", local_name(prop))

    def property_instance(
        self, prop: tree.Property, instance: Instance, table: tree.TableDecl
    ) -> tuple[str, Any, dict[str, Any], Sequence[tree.Annotation]] | None:
        """(name, extern declaration, constructor arguments, annotations) of the object that a table property names."""
        expr = prop.expr
        if isinstance(expr, tree.Call) and expr.kind == "constructor":
            arguments = {b.param.name: b.expr.value for b in expr.bound if b.expr is not None}
            return self.in_place_name(prop, instance, table), expr.target, arguments, prop.annotations
        if isinstance(expr, tree.Name):
            found = instance.environment.get(expr.decl)
            for child in [*instance.children, *self.instances.top]:
                if child.decl is expr.decl:
                    found = child
            if isinstance(found, Instance):
                annotations = () if found.decl is None else found.decl.annotations
                return found.name, found.target, found.arguments, annotations
        return None

    def used_actions(self, instance: Instance) -> list[tree.ActionDecl]:
        """Actions that the tables of a control can run or its apply block calls."""
        used: dict[tree.ActionDecl, None] = {}
        for table in instance.tables:
            for ref in table.actions:
                if ref.action is not None:
                    used[ref.action] = None
            if table.default_action is not None and table.default_action.action is not None:
                used[table.default_action.action] = None
        for call in self.calls_in(instance, instance.target.body):
            if call.kind == "action":
                used[call.target] = None
        return list(used)

    def actions(self) -> Iterator[tuple[tree.ActionDecl, Instance]]:
        """Every action that the control plane sees, with the control it is in: for each control of the pipeline first
        the top-level ones, then those declared in it or in what it applies."""
        for pipe in self.instances.pipeline.values():
            if not isinstance(pipe.target, tree.ControlDecl):
                continue
            used: dict[Instance, list[tree.ActionDecl]] = {}
            for instance in pipe.walk():
                if isinstance(instance.target, tree.ControlDecl):
                    used[instance] = self.used_actions(instance)
            for instance, found in used.items():
                yield from ((a, instance) for a in found if a in self.global_actions)
            for decl, instance in pipe.contents():
                if isinstance(decl, tree.ActionDecl) and decl in used[instance]:
                    yield decl, instance

    def calls_in(self, instance: Instance, body: tree.Block) -> Iterator[tree.Call]:
        """Every call that a block of an instance can make."""
        for statement in live_statements(body.statements, instance.environment):
            for expr in expressions_of(statement):
                if isinstance(expr, tree.Call):
                    yield expr

    def _collect_digests(self, instance: Instance) -> None:
        bodies = [a.body for a in self.used_actions(instance)]
        bodies.append(instance.target.body)
        for body in bodies:
            for call in self.calls_in(instance, body):
                if call.kind == "extern_function":
                    self.types.touched = True
                    if call.method == "digest":
                        self._digest(call)

    def _digest(self, call: tree.Call) -> None:
        type_ = call.bound[1].param.type
        if isinstance(type_, types.RecordType):
            name = local_name(type_.decl)
        else:
            name = f"digest_{sum(1 for n, _ in self.digests if n.startswith('digest_'))}"
        if name not in [n for n, _ in self.digests]:
            self.digests.append((name, type_))
            self.symbols.add("digest", name)

    def controller_headers(self) -> list[tree.RecordDecl]:
        """Headers marked `@controller_header`."""
        return [
            d
            for d in self.program.tree.decls
            if isinstance(d, tree.RecordDecl) and d.keyword == "header" and d.annotation("controller_header")
        ]
