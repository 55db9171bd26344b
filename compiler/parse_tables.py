"""Parsing of tables: keys, actions, entries, properties."""

from __future__ import annotations

from compiler import tree
from compiler.lexer import END
from compiler.parse_statements import StatementParser
from compiler.scope import did_you_mean
from compiler.tokenstream import SyntaxProblem


class TableParser(StatementParser):
    """`table name { … }`."""

    def table(self, annotations: list[tree.Annotation]) -> tree.TableDecl:
        self.expect("table")
        pos = self.pos
        name = self.expect_name("a name for the table")
        self.expect("{", "to open the table")
        table = tree.TableDecl(pos, annotations, name, [], [], [], False, False, [], False, False)
        seen: set[str] = set()
        while not self.at("}", END):
            inner = self.annotations()
            const = self.accept("const")
            at = self.pos
            kind = self.kinds[self.i]
            prop = self.expect_name("a table property (key, actions, entries, default_action, size, …)")
            if prop in seen:
                raise SyntaxProblem(at, f"the table {name} has the property '{prop}' twice")
            seen.add(prop)
            self.expect("=", f"after the table property {prop}")
            if self.at("{") and kind not in ("key", "actions", "entries"):
                meant = did_you_mean(prop, ("key", "actions", "entries"))
                if meant:
                    raise SyntaxProblem(at, f"a table has no property '{prop}'{meant}")
            if kind == "key":
                table.keys = self._keys()
                table.has_keys = True
            elif kind == "actions":
                table.actions = self._actions()
                table.has_actions = True
            elif kind == "entries":
                table.entries = self._entries()
                if table.entries and not table.has_keys:
                    raise SyntaxProblem(at, f"the entries of the table {name} must come after its key")
                table.entries_const = const
                table.has_entries = True
            else:
                expr = self.expression()
                self.expect(";", f"after the table property {prop}")
                table.properties = [*table.properties, tree.Property(at, inner, prop, const, expr)]
        self.expect("}", f"to close the table {name}")
        self.declare(name, False)
        return table

    def _keys(self) -> list[tree.KeyElement]:
        self.expect("{", "to open the key")
        keys: list[tree.KeyElement] = []
        while not self.at("}", END):
            pos = self.pos
            expr = self.expression()
            self.expect(":", "and a match kind (exact, lpm, ternary, range, optional) after the key field")
            kind = self.expect_name("a match kind")
            annotations = self.annotations()
            self.expect(";", "after the key field")
            keys.append(tree.KeyElement(pos, expr, kind, annotations))
        self.expect("}", "to close the key")
        self.accept(";")
        return keys

    def _actions(self) -> list[tree.ActionRef]:
        self.expect("{", "to open the list of actions")
        actions: list[tree.ActionRef] = []
        while not self.at("}", END):
            annotations = self.annotations()
            actions.append(self._action_ref(annotations))
            self.expect(";", "after the action")
        self.expect("}", "to close the list of actions")
        self.accept(";")
        return actions

    def _action_ref(self, annotations: list[tree.Annotation]) -> tree.ActionRef:
        pos = self.pos
        absolute = self.accept(".")
        name = self.expect_name("an action")
        args = self.arguments() if self.at("(") else None
        return tree.ActionRef(pos, annotations, name, absolute, args)

    def _entries(self) -> list[tree.Entry]:
        self.expect("{", "to open the entries")
        entries: list[tree.Entry] = []
        while not self.at("}", END):
            pos = self.pos
            const = self.accept("const")
            priority: tree.Expr | None = None
            if self.at("priority") and self.peek() == "=":
                self.i += 2
                if self.accept("("):
                    priority = self.expression()
                    self.expect(")")
                else:
                    priority = self.integer()
                self.expect(":", "after the priority of the entry")
            keys = self.keyset()
            self.expect(":", "and an action after the key of the entry")
            action = self._action_ref([])
            annotations = self.annotations()
            self.expect(";", "after the entry")
            entries.append(tree.Entry(pos, const, priority, [keys], action, annotations))
        self.expect("}", "to close the entries")
        self.accept(";")
        return entries
