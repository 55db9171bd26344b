"""Parsing of statements."""

from __future__ import annotations

from compiler import tree
from compiler.lexer import END, IDENTIFIER, PRAGMA
from compiler.parse_expressions import ExpressionParser
from compiler.tokenstream import SyntaxProblem

ASSIGN_OPS = frozenset(["=", "*=", "/=", "%=", "+=", "-=", "|+|=", "|-|=", "<<=", ">>=", "&=", "|=", "^="])


class StatementParser(ExpressionParser):
    """Blocks and what is in them."""

    def block(self, annotations: list[tree.Annotation] | None = None) -> tree.Block:
        """`{ statements }` in a scope of its own."""
        pos = self.expect("{")
        with self.scope(), self.nested():
            statements = self.statements()
        self.expect("}", "to close the block")
        return tree.Block(pos, annotations or (), statements)

    def statements(self) -> list[tree.Statement | tree.Decl]:
        """Statements up to a `}`; goes on behind one that is wrong."""
        found: list[tree.Statement | tree.Decl] = []
        while not self.at("}", END):
            start, nesting = self.i, self.nesting
            try:
                found.append(self.statement_or_declaration())
            except SyntaxProblem as problem:
                self.nesting = nesting
                self.no_angle = False
                self.report(problem)
                self.skip_past(start)
                if self.i == start:
                    self.i += 1
        return found

    def statement_or_declaration(self) -> tree.Statement | tree.Decl:
        """One item of a block."""
        kind = self.kinds[self.i]
        annotations = self.annotations() if kind in ("@", PRAGMA) else []
        kind = self.kinds[self.i]
        if kind == "{":
            return self.block(annotations)
        if kind == "for":
            return self._for(annotations)
        if kind == "const":
            return self.constant(annotations)
        if self.starts_declaration():
            return self._variable_or_instance(annotations)
        if annotations:
            self.problem(f"expected a declaration or a block after the annotation, found {self.describe()}")
        return self.statement()

    def starts_declaration(self) -> bool:
        """Whether what follows reads `type name …` or `type(args) name`."""
        kind = self.kinds[self.i]
        if kind == IDENTIFIER:
            after = self.kinds[self.i + 1]
            if after == IDENTIFIER:
                return True
            if not self.is_type_name(self.texts[self.i]):
                return False
            if after == "<":
                start = self.i
                self.i += 1
                args = self._try_type_arguments()
                direct = args is not None and self.at(".")  # Type<args>.apply(…)
                self.i = start
                return not direct
            return after != "."
        if not self.starts_type():
            return False
        return not (kind == "error" and self.peek() == ".") and not (kind == "." and self.peek(2) == ".")

    def constant(self, annotations: list[tree.Annotation]) -> tree.ConstDecl:
        """`const T name = value;`"""
        self.expect("const")
        ref = self.type_ref()
        name, pos, ref = self.declarator(ref)
        self.expect("=", f"and a value for the constant {name}")
        init = self.expression()
        self.expect(";", "after the constant")
        self.declare(name, False)
        return tree.ConstDecl(pos, annotations, name, ref, init)

    def _variable_or_instance(self, annotations: list[tree.Annotation]) -> tree.Decl:
        ref = self.type_ref()
        if self.at("("):
            return self.instance(annotations, ref)
        return self._variable(annotations, ref, True)

    def _variable(
        self, annotations: list[tree.Annotation], ref: tree.TypeRef, semicolon: bool
    ) -> tree.VarDecl:
        name, pos, ref = self.declarator(ref)
        init = self.expression() if self.accept("=") else None
        if semicolon:
            self.expect(";", f"after the declaration of {name}")
        self.declare(name, False)
        return tree.VarDecl(pos, annotations, name, ref, init)

    def variable(self, annotations: list[tree.Annotation], ref: tree.TypeRef) -> tree.VarDecl:
        """The rest of `T name [= value];`."""
        return self._variable(annotations, ref, True)

    def instance(self, annotations: list[tree.Annotation], ref: tree.TypeRef) -> tree.InstanceDecl:
        """The rest of `T(args) name [= {…}];` from the parenthesis on."""
        args = self.arguments()
        name, pos, full = self.declarator(ref)
        call = tree.Call(ref.pos, tree.TypeExpr(ref.pos, ref), None, args)
        initializer = None
        if self.accept("="):
            self.expect("{", "and the object's functions")
            with self.scope():
                initializer = self.object_declarations()
            self.expect("}")
        self.expect(";", f"after the instance {name}")
        self.declare(name, False)
        return tree.InstanceDecl(pos, annotations, name, call, full, initializer)

    def object_declarations(self) -> list[tree.Decl]:
        """Functions and instances in an instance's initialiser."""
        raise NotImplementedError

    # ------------------------------------------------------------- statements

    def statement(self) -> tree.Statement:
        """A statement that is no declaration."""
        kind = self.kinds[self.i]
        pos = self.pos
        if kind == "if":
            self.i += 1
            self.expect("(", "after if")
            condition = self.expression()
            self.expect(")", "after the condition")
            with self.nested():
                then = self._substatement()
                otherwise = self._substatement() if self.accept("else") else None
            return tree.If(pos, condition, then, otherwise)
        if kind == "{":
            return self.block()
        if kind == ";":
            self.i += 1
            return tree.Empty(pos)
        if kind == "return":
            self.i += 1
            value = None if self.at(";") else self.expression()
            self.expect(";", "after return")
            return tree.Return(pos, value)
        if kind == "exit":
            self.i += 1
            self.expect(";", "after exit")
            return tree.Exit(pos)
        if kind == "break":
            self.i += 1
            self.expect(";", "after break")
            return tree.Break(pos)
        if kind == "continue":
            self.i += 1
            self.expect(";", "after continue")
            return tree.Continue(pos)
        if kind == "switch":
            return self._switch()
        if kind == "for":
            return self._for([])
        if kind == "else":
            self.problem("'else' without an 'if' before it")
        statement = self._simple_statement()
        self.expect(";", "after the statement")
        return statement

    def _substatement(self) -> tree.Statement:
        if self.at("@", PRAGMA):
            annotations = self.annotations()
            return self._for(annotations) if self.at("for") else self.block(annotations)
        if self.at("const") or (self.starts_declaration() and not self.at("(")):
            self.problem("a declaration is not a statement: put it in braces")
        return self.statement()

    def _simple_statement(self) -> tree.Statement:
        pos = self.pos
        left = self._lvalue()
        op = self.kinds[self.i]
        if op in ASSIGN_OPS:
            self.i += 1
            return tree.Assign(pos, left, self.expression(), op[:-1])
        if op == ">" and self.peek() == ">=" and self.starts[self.i + 1] == self.starts[self.i] + 1:
            self.i += 2
            return tree.Assign(pos, left, self.expression(), ">>")
        if isinstance(left, tree.Call):
            return tree.CallStatement(pos, left)
        if op in ("++", "-") and self.peek() in (";", "-"):
            self.problem("P4 has no ++ and --; write x = x + 1")
        if op == IDENTIFIER and isinstance(left, tree.Name):
            raise SyntaxProblem(pos, f"'{left.name}' is not a type that is declared before this line")
        self.problem(f"expected '=' or a call, found {self.describe()}")

    def _lvalue(self) -> tree.Expr:
        if self.at("("):
            self.i += 1
            with self.nested():
                inner = self._lvalue()
            self.expect(")")
            return self._postfix(inner)
        return self._postfix(self._primary())

    def _switch(self) -> tree.Switch:
        pos = self.expect("switch")
        self.expect("(", "after switch")
        expr = self.expression()
        self.expect(")", "after the switch expression")
        self.expect("{", "before the switch cases")
        cases: list[tree.SwitchCase] = []
        while not self.at("}", END):
            at = self.pos
            if self.accept("default"):
                label: tree.Expr = tree.DefaultExpr(at)
            else:
                label = self.expression()
            self.expect(":", "after the switch label")
            body = None
            if self.at("{", "@"):
                body = self.block(self.annotations())
            cases.append(tree.SwitchCase(at, label, body))
        self.expect("}", "to close the switch")
        return tree.Switch(pos, expr, cases)

    def _for(self, annotations: list[tree.Annotation]) -> tree.Statement:
        pos = self.expect("for")
        self.expect("(", "after for")
        with self.scope(), self.nested():
            init: list[tree.Statement | tree.Decl] = []
            while not self.at(";"):
                inner = self.annotations()
                if self.starts_declaration():
                    ref = self.type_ref()
                    if not init and self.at_name() and self.peek() == "in":
                        return self._for_in(pos, annotations, inner, ref)
                    init.append(self._variable(inner, ref, False))
                else:
                    init.append(self._simple_statement())
                if not self.accept(","):
                    break
            self.expect(";", "after the first part of for")
            condition = self.expression()
            self.expect(";", "after the condition of for")
            update: list[tree.Statement] = []
            while not self.at(")"):
                update.append(self._simple_statement())
                if not self.accept(","):
                    break
            self.expect(")", "to close the head of for")
            return tree.For(pos, annotations, init, condition, update, self._substatement())

    def _for_in(
        self, pos: int, annotations: list[tree.Annotation], inner: list[tree.Annotation], ref: tree.TypeRef
    ) -> tree.Statement:
        at = self.pos
        name = self.expect_name()
        self.expect("in")
        collection_pos = self.pos
        collection = self.expression()
        if self.accept(".."):
            collection = tree.RangeExpr(collection_pos, collection, self.expression())
        self.expect(")", "to close the head of for")
        self.declare(name, False)
        return tree.ForIn(
            pos, annotations, tree.VarDecl(at, inner, name, ref, None), collection, self._substatement()
        )
