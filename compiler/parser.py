"""The P4_16 parser: preprocessed text to `tree.Program`, by recursive descent. Declarations are here; statements,
expressions and types in `parse_statements` and `parse_expressions`, tokens and scopes in `tokenstream`."""

from __future__ import annotations

from compiler import tree
from compiler.errors import CompileError
from compiler.lexer import END, IDENTIFIER, tokenize
from compiler.parse_tables import TableParser
from compiler.scope import did_you_mean, missing_include
from compiler.source import Source
from compiler.tokenstream import SyntaxProblem, TooManyErrors

OUTERMOST = ("control", "parser", "package", "header", "header_union", "struct", "extern", "typedef", "enum")
"""Keywords that begin a declaration and occur nowhere inside of one."""

BEGINNINGS = (*OUTERMOST, "const", "action", "error", "match_kind")


def parse(source: Source) -> tree.Program:
    """The tree of a whole program; CompileError with every syntax error found."""
    parser = Parser(source, tokenize(source))
    try:
        program = parser.program()
    except TooManyErrors:
        program = None
    if parser.diagnostics or program is None:
        raise CompileError(parser.diagnostics)
    return program


class Parser(TableParser):
    """Declarations."""

    def program(self) -> tree.Program:
        """Everything up to the end of the file."""
        decls: list[tree.Decl] = []
        while not self.at(END):
            if self.accept(";"):
                continue
            start, depth = self.i, len(self.scopes)
            try:
                decl = self.declaration()
                if decl is not None:
                    decls.append(decl)
            except SyntaxProblem as problem:
                self.nesting = 0
                self.no_angle = False
                self.report(problem)
                del self.scopes[depth:]
                self._resynchronise(start)
        return tree.Program(decls)

    def _resynchronise(self, start: int) -> None:
        if self.i > start and self.at(*OUTERMOST):
            return  # a brace was forgotten before this declaration
        self.skip_past(start)
        while self.at("}"):
            self.i += 1
        if self.i == start:
            self.i += 1

    # ------------------------------------------------------------- top level

    def declaration(self) -> tree.Decl | None:
        """One top-level declaration; None for `extern name;`, which only announces a type."""
        annotations = self.annotations()
        kind = self.kinds[self.i]
        if kind == "const":
            return self.constant(annotations)
        if kind == "extern":
            return self._extern(annotations)
        if kind == "action":
            return self._action(annotations)
        if kind == "parser":
            return self._parser(annotations)
        if kind == "control":
            return self._control(annotations)
        if kind == "package":
            return self._package(annotations)
        if kind in ("header", "struct", "header_union"):
            return self._record(annotations)
        if kind == "enum":
            return self._enum(annotations)
        if kind == "error" and self.peek() == "{":
            pos = self.expect("error")
            return tree.ErrorDecl(pos, annotations, "error", self._identifiers("error"))
        if kind == "match_kind" and self.peek() == "{":
            pos = self.expect("match_kind")
            return tree.MatchKindDecl(pos, annotations, "match_kind", self._identifiers("match_kind"))
        if kind == "typedef" or (
            (kind == "type" and self.peek() not in (IDENTIFIER, "(")) or self._at_newtype()
        ):
            return self._typedef(annotations)
        if kind == IDENTIFIER and not self.is_type_name(self.texts[self.i]):
            self._unknown_beginning()
        if not (kind == IDENTIFIER or self.starts_type() or kind == "."):
            self.problem(f"expected a declaration, found {self.describe()}")
        ref = self.type_ref()
        if self.at("("):
            return self.instance(annotations, ref)
        return self._function(annotations, ref)

    def _unknown_beginning(self) -> None:
        """A declaration begins with an unknown name: fine for a generic function's result, else an error."""
        name = self.texts[self.i]
        meant = did_you_mean(name, BEGINNINGS)
        if self.peek() == IDENTIFIER and meant and self.peek(2) in ("(", "{", "<"):
            self.problem(f"'{name}' begins no declaration{meant}")
        if self.peek() == "(":
            self.problem(f"'{name}' is not a type that is declared before this line{missing_include(name)}")
        if self.peek() not in (IDENTIFIER, "<"):
            self.problem(f"'{name}' begins no declaration (header, struct, parser, control, const, …)")

    def _at_newtype(self) -> bool:
        """`type T name;` with a declared T."""
        return self.at("type") and self.peek() == IDENTIFIER and self.peek(2) != "("

    def _identifiers(self, what: str) -> list[tree.EnumMember]:
        self.expect("{")
        members: list[tree.EnumMember] = []
        while not self.at("}"):
            annotations = self.annotations()
            pos = self.pos
            members.append(tree.EnumMember(pos, annotations, self.expect_name(f"a name for the {what}")))
            if not self.accept(","):
                break
        self.expect("}", f"to close the {what} declaration")
        return members

    # ------------------------------------------------------------- types

    def _record(self, annotations: list[tree.Annotation]) -> tree.RecordDecl:
        keyword = self.texts[self.i]
        self.i += 1
        pos = self.pos
        name = self.expect_name(f"a name for the {keyword}")
        self.declare(name, True)
        with self.scope():
            type_params = self._type_params()
            self.expect("{", f"to open the {keyword}")
            fields: list[tree.StructField] = []
            while not self.at("}", END):
                start = self.i
                try:
                    fields.append(self._field())
                except SyntaxProblem as problem:
                    self.nesting = 0
                    self.report(problem)
                    self.skip_past(start)
                    if self.i == start:
                        break
            self.expect("}", f"to close the {keyword} {name}")
        return tree.RecordDecl(pos, annotations, name, keyword, type_params, fields)

    def _field(self) -> tree.StructField:
        annotations = self.annotations()
        ref = self.type_ref()
        name, pos, ref = self.declarator(ref)
        self.expect(";", f"after the field {name}")
        return tree.StructField(pos, annotations, name, ref)

    def _enum(self, annotations: list[tree.Annotation]) -> tree.EnumDecl:
        self.expect("enum")
        ref = None
        if not (self.at_name() and self.peek() == "{"):
            ref = self.type_ref()
        pos = self.pos
        name = self.expect_name("a name for the enum")
        self.declare(name, True)
        if ref is None:
            return tree.EnumDecl(pos, annotations, name, None, self._identifiers("enum"))
        self.expect("{", "to open the enum")
        members: list[tree.EnumMember] = []
        while not self.at("}"):
            inner = self.annotations()
            at = self.pos
            member = self.expect_name("a member")
            self.expect("=", f"and a value for {member}: an enum with a type gives every member a value")
            members.append(tree.EnumMember(at, inner, member, self.expression()))
            if not self.accept(","):
                break
        self.expect("}", "to close the enum")
        return tree.EnumDecl(pos, annotations, name, ref, members)

    def _typedef(self, annotations: list[tree.Annotation]) -> tree.TypedefDecl:
        newtype = self.at("type")
        self.i += 1
        inline: tree.Decl | None = None
        inner = self.annotations()
        if self.at("header", "struct", "header_union"):
            inline = self._record(inner)
        elif self.at("enum"):
            inline = self._enum(inner)
        if inline is not None:
            ref: tree.TypeRef = tree.NamedTypeRef(inline.pos, inline.name)
        else:
            ref = self.type_ref()
        name, pos, ref = self.declarator(ref)
        self.expect(";", f"after the declaration of {name}")
        self.declare(name, True)
        return tree.TypedefDecl(pos, annotations, name, newtype, ref, inline)

    def _type_params(self) -> list[tree.TypeParam]:
        found: list[tree.TypeParam] = []
        if not self.accept("<"):
            return found
        while not self.at(">"):
            pos = self.pos
            name = self.expect_name("a type parameter")
            self.declare(name, True)
            found.append(tree.TypeParam(pos, (), name))
            if not self.accept(","):
                break
        self.expect(">", "to close the type parameters")
        return found

    def _params(self) -> list[tree.Param]:
        self.expect("(", "to open the parameters")
        found: list[tree.Param] = []
        while not self.at(")"):
            annotations = self.annotations()
            direction = ""
            if self.at("in", "out", "inout"):
                direction = self.texts[self.i]
                self.i += 1
            ref = self.type_ref()
            name, pos, ref = self.declarator(ref)
            default = self.expression() if self.accept("=") else None
            found.append(tree.Param(pos, annotations, name, direction, ref, default))
            if not self.accept(","):
                break
        self.expect(")", "to close the parameters")
        for param in found:
            self.declare(param.name, False)
        return found

    # ------------------------------------------------------------- externs and functions

    def _extern(self, annotations: list[tree.Annotation]) -> tree.Decl | None:
        self.expect("extern")
        if self._at_extern_object():
            return self._extern_object(annotations)
        if self.at_name() and self.peek() == ";":
            self.declare(self.expect_name(), True)
            self.expect(";")
            return None
        result = self.type_ref()
        pos = self.pos
        name = self.expect_name("a name for the function")
        with self.scope():
            type_params = self._type_params()
            params = self._params()
        self.expect(";", "after the extern function")
        self.declare(name, False)
        return tree.ExternFunction(pos, annotations, name, type_params, result, params)

    def _at_extern_object(self) -> bool:
        if not self.at_name():
            return False
        ahead = 1
        if self.peek(ahead) == "<":
            while self.peek(ahead) not in (">", END):
                ahead += 1
            ahead += 1
        return self.peek(ahead) == "{"

    def _extern_object(self, annotations: list[tree.Annotation]) -> tree.ExternDecl:
        pos = self.pos
        name = self.expect_name()
        self.declare(name, True)
        with self.scope():
            type_params = self._type_params()
            self.expect("{")
            methods: list[tree.ExternMethod] = []
            while not self.at("}"):
                methods.append(self._method(name))
            self.expect("}", "to close the extern")
        return tree.ExternDecl(pos, annotations, name, type_params, methods)

    def _method(self, extern: str) -> tree.ExternMethod:
        annotations = self.annotations()
        abstract = self.accept("abstract")
        pos = self.pos
        if self.at_name() and self.texts[self.i] == extern and self.peek() == "(":
            self.i += 1
            with self.scope():
                params = self._params()
            self.expect(";", "after the constructor")
            return tree.ExternMethod(pos, annotations, extern, (), None, params, abstract)
        result, pos, name, type_params = self._prototype_head()
        params = self._params()
        self.scopes.pop()
        self.expect(";", "after the method")
        return tree.ExternMethod(pos, annotations, name, type_params, result, params, abstract)

    def _prototype_head(self) -> tuple[tree.TypeRef, int, str, list[tree.TypeParam]]:
        """`T name<X, …>`; leaves a scope open for the type parameters, which the result type may already use."""
        self.scopes.append({})
        result = self.type_ref()
        pos = self.pos
        name = self.expect_name("a name for the function")
        type_params = self._type_params()
        return result, pos, name, type_params

    def _function(self, annotations: list[tree.Annotation], result: tree.TypeRef) -> tree.FunctionDecl:
        pos = self.pos
        name = self.expect_name("a name for the function")
        self.declare(name, False)
        with self.scope():
            type_params = self._type_params()
            if not self.at("("):
                self.problem(
                    f"expected '(' and the parameters of the function {name}, found {self.describe()}"
                )
            params = self._params()
            body = self.block()
        return tree.FunctionDecl(pos, annotations, name, type_params, result, params, body)

    def object_declarations(self) -> list[tree.Decl]:
        """Functions and instances in an instance's initialiser."""
        found: list[tree.Decl] = []
        while not self.at("}", END):
            annotations = self.annotations()
            ref = self.type_ref()
            if self.at("("):
                found.append(self.instance(annotations, ref))
            else:
                found.append(self._function(annotations, ref))
        return found

    def _action(self, annotations: list[tree.Annotation]) -> tree.ActionDecl:
        self.expect("action")
        pos = self.pos
        name = self.expect_name("a name for the action")
        self.declare(name, False)
        with self.scope():
            params = self._params()
            body = self.block()
        return tree.ActionDecl(pos, annotations, name, params, body)

    # ------------------------------------------------------------- parsers, controls, packages

    def _package(self, annotations: list[tree.Annotation]) -> tree.PackageDecl:
        self.expect("package")
        pos = self.pos
        name = self.expect_name("a name for the package")
        self.declare(name, True)
        with self.scope():
            type_params = self._type_params()
            params = self._params()
        self.expect(";", "after the package type")
        return tree.PackageDecl(pos, annotations, name, type_params, params)

    def _parser(self, annotations: list[tree.Annotation]) -> tree.Decl:
        self.expect("parser")
        pos = self.pos
        name = self.expect_name("a name for the parser")
        self.declare(name, True)
        with self.scope():
            type_params = self._type_params()
            params = self._params()
            if self.accept(";"):
                return tree.ParserTypeDecl(pos, annotations, name, type_params, params)
            constructor = self._params() if self.at("(") else []
            self.expect("{", "to open the parser")
            locals_: list[tree.Decl] = []
            states: list[tree.StateDecl] = []
            while not self.at("}", END, *OUTERMOST):
                start, nesting = self.i, self.nesting
                try:
                    inner = self.annotations()
                    if self.at("state") and self.peek() != "(":
                        states.append(self._state(inner))
                    else:
                        locals_.append(self._parser_local(inner))
                except SyntaxProblem as problem:
                    self.nesting = nesting
                    self.report(problem)
                    if self.i > start and self.at("state"):
                        continue  # a brace was forgotten before this state
                    self.skip_past(start)
                    if self.i == start:
                        self.i += 1
            self.expect("}", f"to close the parser {name}")
        return tree.ParserDecl(pos, annotations, name, type_params, params, constructor, locals_, states)

    def _parser_local(self, annotations: list[tree.Annotation]) -> tree.Decl:
        if self.at("const"):
            return self.constant(annotations)
        if self.at("value_set"):
            return self._value_set(annotations)
        if not self.starts_declaration():
            self.problem(f"expected a state or a local declaration of the parser, found {self.describe()}")
        ref = self.type_ref()
        return self.instance(annotations, ref) if self.at("(") else self.variable(annotations, ref)

    def _value_set(self, annotations: list[tree.Annotation]) -> tree.ValueSetDecl:
        self.expect("value_set")
        self.expect("<", "and the type of the value set's members")
        ref = self.type_ref()
        self.expect(">")
        self.expect("(", "and the size of the value set")
        size = self.expression()
        self.expect(")")
        pos = self.pos
        name = self.expect_name("a name for the value set")
        self.expect(";", "after the value set")
        self.declare(name, False)
        return tree.ValueSetDecl(pos, annotations, name, ref, size)

    def _state(self, annotations: list[tree.Annotation]) -> tree.StateDecl:
        self.expect("state")
        pos = self.pos
        name = self.expect_name("a name for the state")
        self.expect("{", "to open the state")
        body: list[tree.Statement | tree.Decl] = []
        transition: tree.Transition | tree.Select | None = None
        with self.scope():
            while not self.at("}", "transition", "state", END, *OUTERMOST):
                start, nesting = self.i, self.nesting
                try:
                    body.append(self.statement_or_declaration())
                except SyntaxProblem as problem:
                    self.nesting = nesting
                    self.report(problem)
                    self.skip_past(start)
                    if self.i == start:
                        self.i += 1
            if self.at("transition"):
                transition = self._transition()
        self.expect("}", f"to close the state {name} (a transition is its last statement)")
        return tree.StateDecl(pos, annotations, name, body, transition)

    def _transition(self) -> tree.Transition | tree.Select:
        self.expect("transition")
        pos = self.pos
        if not self.accept("select"):
            name = self.expect_name("a state")
            self.expect(";", "after the transition")
            return tree.Transition(pos, name)
        self.expect("(", "after select")
        exprs: list[tree.Expr] = []
        while not self.at(")"):
            exprs.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")", "to close select(…)")
        self.expect("{", "before the cases of select")
        cases: list[tree.SelectCase] = []
        while not self.at("}", END):
            at = self.pos
            keys = self.keyset()
            self.expect(":", "after the value of the select case")
            name = self.expect_name("a state")
            self.expect(";", "after the select case")
            cases.append(tree.SelectCase(at, [keys], name))
        self.expect("}", "to close select")
        return tree.Select(pos, exprs, cases)

    def _control(self, annotations: list[tree.Annotation]) -> tree.Decl:
        self.expect("control")
        pos = self.pos
        name = self.expect_name("a name for the control")
        self.declare(name, True)
        with self.scope():
            type_params = self._type_params()
            params = self._params()
            if self.accept(";"):
                return tree.ControlTypeDecl(pos, annotations, name, type_params, params)
            constructor = self._params() if self.at("(") else []
            self.expect("{", "to open the control")
            locals_: list[tree.Decl] = []
            body: tree.Block | None = None
            while not self.at("}", END, *OUTERMOST):
                start, nesting = self.i, self.nesting
                try:
                    inner = self.annotations()
                    if self.at("apply") and self.peek() in ("{", "@"):
                        self.i += 1
                        if body is not None:
                            self.problem("a control has one apply block; this is a second one")
                        body = self.block(self.annotations())
                    else:
                        locals_.append(self._control_local(inner))
                        if body is not None:
                            raise SyntaxProblem(
                                locals_[-1].pos, "the apply block is the last part of a control"
                            )
                except SyntaxProblem as problem:
                    self.nesting = nesting
                    self.report(problem)
                    self.skip_past(start)
                    if self.i == start:
                        self.i += 1
            if body is None:
                self.problem(f"the control {name} has no apply block")
            self.expect("}", f"to close the control {name}")
        return tree.ControlDecl(pos, annotations, name, type_params, params, constructor, locals_, body)

    def _control_local(self, annotations: list[tree.Annotation]) -> tree.Decl:
        if self.at("const"):
            return self.constant(annotations)
        if self.at("action"):
            return self._action(annotations)
        if self.at("table"):
            return self.table(annotations)
        if not self.starts_declaration():
            self.problem(f"expected an action, a table, a declaration or apply, found {self.describe()}")
        ref = self.type_ref()
        return self.instance(annotations, ref) if self.at("(") else self.variable(annotations, ref)
