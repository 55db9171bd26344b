"""Parsing of types, annotations and expressions (operator precedence climbing)."""

from __future__ import annotations

import re

from compiler import tree
from compiler.lexer import END, IDENTIFIER, INTEGER, PRAGMA, STRING, BadNumber, parse_integer
from compiler.tokenstream import MAX_NESTING, SyntaxProblem, TokenStream

PRECEDENCE = {
    "||": 2,
    "&&": 3,
    "==": 4,
    "!=": 4,
    "<": 5,
    ">": 5,
    "<=": 5,
    ">=": 5,
    "|": 6,
    "^": 7,
    "&": 8,
    "<<": 9,
    ">>": 9,
    "++": 10,
    "+": 10,
    "-": 10,
    "|+|": 10,
    "|-|": 10,
    "*": 11,
    "/": 11,
    "%": 11,
}
TERNARY = 1

BASE_TYPES = frozenset(
    ["bool", "error", "string", "match_kind", "void", "bit", "int", "varbit", "tuple", "list"]
)
TYPE_START = BASE_TYPES - {"list"}
MAX_CHAIN = 1500
"""Operators or selectors in a row; deeper trees would exhaust the stack of what walks them."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def unescape(literal: str) -> str:
    """The value of a string literal as written, quotes included."""
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(0)), literal[1:-1], flags=re.DOTALL)


class ExpressionParser(TokenStream):
    """Types, annotations, expressions, keysets, arguments."""

    no_angle = False
    """Inside `bit<…>`: `>` ends the expression."""

    # ------------------------------------------------------------- annotations

    def annotations(self) -> list[tree.Annotation]:
        """Zero or more annotations."""
        found: list[tree.Annotation] = []
        while True:
            if self.kinds[self.i] == "@":
                found.append(self._annotation())
            elif self.kinds[self.i] == PRAGMA:
                text = self.texts[self.i][len("@pragma") :].split("//")[0].strip()
                name, _, body = text.partition(" ")
                tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[A-Za-z_0-9]+|\S', body)
                found.append(
                    tree.Annotation(self.pos, name, "tokens" if body else "plain", tokens, (), (), body, True)
                )
                self.i += 1
            else:
                return found

    def _annotation(self) -> tree.Annotation:
        pos = self.expect("@")
        if not re.match(r"[A-Za-z_]", self.texts[self.i]):
            self.problem(f"expected an annotation's name, found {self.describe()}")
        name = self.texts[self.i]
        self.i += 1
        if self.kinds[self.i] == "(":
            start = self.i
            depth = 0
            while True:
                kind = self.kinds[self.i]
                if kind == END:
                    raise SyntaxProblem(pos, f"the parenthesis after @{name} is never closed")
                depth += (kind == "(") - (kind == ")")
                self.i += 1
                if depth == 0:
                    break
            body = self.source.text[self.starts[start] + 1 : self.starts[self.i - 1]]
            return tree.Annotation(pos, name, "tokens", self.texts[start + 1 : self.i - 1], (), (), body)
        if self.kinds[self.i] == "[":
            open_at = self.expect("[")
            exprs: list[tree.Expr] = []
            pairs: list[tree.NamedExpr] = []
            if self.at_name() and self.peek() == "=":
                while True:
                    at = self.pos
                    key = self.expect_name()
                    self.expect("=")
                    pairs.append(tree.NamedExpr(at, key, self.expression()))
                    if not self.accept(",") or self.at("]"):
                        break
            else:
                while not self.at("]"):
                    exprs.append(self.expression())
                    if not self.accept(","):
                        break
            close_at = self.expect("]", "to close the annotation")
            body = self.source.text[open_at + 1 : close_at]
            return tree.Annotation(pos, name, "pairs" if pairs else "list", (), exprs, pairs, body)
        return tree.Annotation(pos, name, "plain")

    # ------------------------------------------------------------- types

    def starts_type(self) -> bool:
        """Whether the next token begins a type (an identifier counts only when it is declared as one)."""
        kind = self.kinds[self.i]
        if kind == IDENTIFIER:
            return self.is_type_name(self.texts[self.i])
        if kind == "list":
            return self.peek() == "<"
        if kind == ".":
            return self.peek() == IDENTIFIER and self.scopes[0].get(self.texts[self.i + 1], False)
        return kind in TYPE_START

    def type_ref(self) -> tree.TypeRef:
        """A type, stack dimensions included."""
        ref = self._simple_type()
        while self.kinds[self.i] == "[":
            pos = self.expect("[")
            size = self.expression()
            self.expect("]", "after the size")
            ref = tree.StackTypeRef(pos, ref, size)
        return ref

    def _simple_type(self) -> tree.TypeRef:
        pos = self.pos
        kind = self.kinds[self.i]
        if kind in ("bit", "int", "varbit"):
            self.i += 1
            if self.kinds[self.i] == "<":
                self.i += 1
                size = self._angle_expression()
                self.expect(">", f"to close {kind}<")
                return tree.BaseTypeRef(pos, kind, size)
            if kind == "varbit":
                self.problem("varbit needs its maximum size in bits: varbit<N>")
            return tree.BaseTypeRef(pos, kind)
        if kind == "tuple":
            self.i += 1
            return tree.TupleTypeRef(pos, self._type_arguments())
        if kind == "list" and self.peek() == "<":
            self.i += 1
            args = self._type_arguments()
            if len(args) != 1:
                raise SyntaxProblem(pos, "list<…> has one element type")
            return tree.ListTypeRef(pos, args[0])
        if kind in ("bool", "error", "string", "match_kind", "void"):
            self.i += 1
            return tree.BaseTypeRef(pos, kind)
        absolute = self.accept(".")
        if not self.at_name():
            self.problem(f"expected a type, found {self.describe()}")
        name = self.expect_name("a type")
        args2 = self._type_arguments() if self.kinds[self.i] == "<" else None
        return tree.NamedTypeRef(pos, name, absolute, args2)

    def _angle_expression(self) -> tree.Expr:
        before, self.no_angle = self.no_angle, True
        try:
            return self.expression()
        finally:
            self.no_angle = before

    def _type_arguments(self) -> list[tree.TypeRef]:
        """`<T, …>`; the closing `>` of nested ones come one by one."""
        self.expect("<")
        args: list[tree.TypeRef] = []
        with self.nested():
            while not self.at(">"):
                if self.at("_"):
                    args.append(tree.BaseTypeRef(self.pos, "_"))
                    self.i += 1
                else:
                    args.append(self.type_ref())
                if not self.accept(","):
                    break
        self.expect(">", "to close the type arguments")
        return args

    def _try_type_arguments(self) -> list[tree.TypeRef] | None:
        """Type arguments of a call, if that is what `<` begins here; otherwise nothing is consumed."""
        start = self.i
        self.i += 1
        if not (self.starts_type() or self.at("_", ">")):
            self.i = start
            return None
        self.i = start
        nesting = self.nesting
        try:
            args = self._type_arguments()
        except SyntaxProblem:
            self.i, self.nesting = start, nesting
            return None
        if not self.at("(", "."):
            self.i = start
            return None
        return args

    def declarator(self, ref: tree.TypeRef) -> tuple[str, int, tree.TypeRef]:
        """`name` or `name[size]`: (name, its position, the type with the dimensions)."""
        pos = self.pos
        name = self.expect_name()
        while self.kinds[self.i] == "[":
            at = self.expect("[")
            size = self.expression()
            self.expect("]", "after the size")
            ref = tree.StackTypeRef(at, ref, size)
        return name, pos, ref

    # ------------------------------------------------------------- expressions

    def expression(self) -> tree.Expr:
        """An expression."""
        self.nesting += 1  # given back by whoever catches a SyntaxProblem
        if self.nesting > MAX_NESTING:
            self.problem(f"nested more than {MAX_NESTING} levels deep")
        expr = self._climb(TERNARY)
        self.nesting -= 1
        return expr

    def free_expression(self) -> tree.Expr:
        """An expression inside brackets, where `>` is an operator again."""
        before, self.no_angle = self.no_angle, False
        try:
            return self.expression()
        finally:
            self.no_angle = before

    def _climb(self, lowest: int) -> tree.Expr:
        left = self._unary()
        chain = 0
        while True:
            op = self.kinds[self.i]
            width = 1
            if op == ">":
                if self.no_angle:
                    return left
                if self.kinds[self.i + 1] == ">" and self.starts[self.i + 1] == self.starts[self.i] + 1:
                    op, width = ">>", 2
            if op == "?":
                if lowest > TERNARY:
                    return left
                pos = self.pos
                self.i += 1
                yes = self.free_expression()
                self.expect(":", "in the conditional expression a ? b : c")
                with self.nested():
                    no = self._climb(TERNARY)
                left = tree.Ternary(left.pos, left, yes, no)
                continue
            power = PRECEDENCE.get(op)
            if power is None or power < lowest:
                return left
            chain += 1
            if chain > MAX_CHAIN:
                self.problem(f"an expression has more than {MAX_CHAIN} operators in a row")
            pos = self.pos
            self.i += width
            right = self._climb(power + 1)
            left = tree.Binary(pos, op, left, right)

    def _unary(self) -> tree.Expr:
        kind = self.kinds[self.i]
        if kind in ("!", "~", "-", "+"):
            pos = self.pos
            self.i += 1
            with self.nested():
                return tree.Unary(pos, kind, self._unary())
        if kind == "(":
            cast = self._try_cast()
            if cast is not None:
                return cast
        return self._postfix(self._primary())

    def _try_cast(self) -> tree.Expr | None:
        start = self.i
        pos = self.pos
        self.i += 1
        if not self.starts_type():
            self.i = start
            return None
        before, self.no_angle = self.no_angle, False
        nesting = self.nesting
        try:
            ref = self.type_ref()
            closed = self.accept(")")
        except SyntaxProblem:
            closed = False
            self.nesting = nesting
        finally:
            self.no_angle = before
        if not closed:
            self.i = start
            return None
        with self.nested():
            return tree.Cast(pos, ref, self._unary())

    def _primary(self) -> tree.Expr:
        i = self.i
        kind = self.kinds[i]
        pos = self.starts[i]
        if kind == IDENTIFIER:
            name = self.texts[i]
            if self.is_type_name(name):
                return self._type_expression()
            self.i = i + 1
            return tree.Name(pos, name)
        if kind == INTEGER:
            return self.integer()
        if kind == "(":
            self.i = i + 1
            inner = self.free_expression()
            self.expect(")", "to close the parenthesis")
            return inner
        if kind in ("true", "false"):
            self.i = i + 1
            return tree.BoolLiteral(pos, kind == "true")
        if kind == STRING:
            self.i = i + 1
            return tree.StringLiteral(pos, unescape(self.texts[i]))
        if kind == "{":
            return self._braces()
        if kind == "{#}":
            self.i = i + 1
            return tree.InvalidHeader(pos)
        if kind == "...":
            self.i = i + 1
            return tree.Dots(pos)
        if kind == "this":
            self.i = i + 1
            return tree.This(pos)
        if kind == ".":
            if self.starts_type():
                return self._type_expression()
            self.i = i + 1
            return tree.Name(pos, self.expect_name(), True)
        if kind == "error" or kind in TYPE_START:
            return self._type_expression()
        if self.at_name():
            self.i = i + 1
            return tree.Name(pos, self.texts[i])
        self.problem(f"expected an expression, found {self.describe()}")

    def _type_expression(self) -> tree.Expr:
        pos = self.pos
        if self.kinds[self.i] in (IDENTIFIER, "."):
            absolute = self.accept(".")
            name = self.expect_name()
            args = self._try_type_arguments() if self.at("<") else None
            ref: tree.TypeRef = tree.NamedTypeRef(pos, name, absolute, args)
        else:
            ref = self.type_ref()
        if not self.at(".", "("):
            self.problem(f"expected '.' or '(' after the type, found {self.describe()}")
        return tree.TypeExpr(pos, ref)

    def integer(self) -> tree.IntLiteral:
        """An integer literal."""
        text = self.texts[self.i]
        pos = self.expect(INTEGER)
        try:
            number, width, signed = parse_integer(text)
        except BadNumber as error:
            raise SyntaxProblem(pos, str(error)) from None
        return tree.IntLiteral(pos, number, width, signed, text)

    def _postfix(self, expr: tree.Expr) -> tree.Expr:
        chain = 0
        while True:
            kind = self.kinds[self.i]
            if kind == ".":
                self.i += 1
                expr = tree.Member(expr.pos, expr, self._member_name())
            elif kind == "[":
                expr = self._subscript(expr)
            elif kind == "(":
                expr = tree.Call(expr.pos, expr, None, self.arguments())
            elif kind == "<" and not isinstance(expr, tree.IntLiteral):
                args = self._try_type_arguments()
                if args is None or not self.at("("):
                    return expr
                expr = tree.Call(expr.pos, expr, args, self.arguments())
            else:
                return expr
            chain += 1
            if chain > MAX_CHAIN:
                self.problem(f"an expression has more than {MAX_CHAIN} selectors in a row")

    def _member_name(self) -> str:
        return self.expect_name("a field or method name after '.'")

    def _subscript(self, expr: tree.Expr) -> tree.Expr:
        self.expect("[")
        first = self.free_expression()
        if self.accept(":"):
            second = self.free_expression()
            self.expect("]", "after the slice")
            return tree.Slice(expr.pos, expr, first, second)
        if self.accept("+:"):
            second = self.free_expression()
            self.expect("]", "after the slice")
            return tree.PlusSlice(expr.pos, expr, first, second)
        self.expect("]", "after the index")
        return tree.Index(expr.pos, expr, first)

    def _braces(self) -> tree.Expr:
        """`{…}`: a list or struct literal."""
        pos = self.expect("{")
        dots = False
        if self.at_name() and self.peek() == "=":
            pairs: list[tree.NamedExpr] = []
            while not self.at("}"):
                at = self.pos
                if self.accept("..."):
                    dots = True
                    self.accept(",")
                    break
                name = self.expect_name("a field name")
                self.expect("=", f"after the field name {name}")
                pairs.append(tree.NamedExpr(at, name, self.free_expression()))
                if not self.accept(","):
                    break
            self.expect("}", "to close the struct value")
            return tree.StructExpr(pos, pairs, dots)
        elements: list[tree.Expr] = []
        while not self.at("}"):
            if self.at("...") and self.peek() in ("}", ","):
                self.i += 1
                self.accept(",")
                dots = True
                break
            elements.append(self.free_expression())
            if not self.accept(","):
                break
        self.expect("}", "to close the list")
        return tree.ListExpr(pos, elements, dots)

    def arguments(self) -> list[tree.Argument]:
        """`(a, name = b, _)`."""
        self.expect("(")
        args: list[tree.Argument] = []
        while not self.at(")"):
            pos = self.pos
            name = None
            if self.peek() == "=" and self.at_name():
                name = self.expect_name()
                self.expect("=")
            if self.at("_"):
                expr: tree.Expr = tree.DontCare(self.pos)
                self.i += 1
            else:
                expr = self.free_expression()
            args.append(tree.Argument(pos, name, expr))
            if not self.accept(","):
                break
        self.expect(")", "to close the argument list")
        return args

    # ------------------------------------------------------------- keysets

    def keyset(self) -> tree.Expr:
        """A keyset of a select case or a table entry."""
        if self.at("("):
            start, nesting = self.i, self.nesting
            try:
                whole = self._tuple_keyset()
            except SyntaxProblem:
                whole = None
                self.nesting = nesting
            if whole is not None and self.at(":"):
                return whole
            self.i = start
        return self._simple_keyset()

    def _tuple_keyset(self) -> tree.Expr | None:
        pos = self.expect("(")
        elements = [self._simple_keyset()]
        while self.accept(","):
            if self.at(")"):
                break
            elements.append(self._simple_keyset())
        if not self.accept(")"):
            return None
        if len(elements) == 1 and not isinstance(
            elements[0], (tree.MaskExpr, tree.RangeExpr, tree.DefaultExpr)
        ):
            return None
        return tree.TupleKeyset(pos, elements)

    def _simple_keyset(self) -> tree.Expr:
        pos = self.pos
        if self.at("default", "_"):
            self.i += 1
            return tree.DefaultExpr(pos)
        left = self.expression()
        if self.accept("&&&"):
            return tree.MaskExpr(pos, left, self.expression())
        if self.accept(".."):
            return tree.RangeExpr(pos, left, self.expression())
        return left
