"""The tree as P4_16 text again, everything but the system includes, for `--pp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from compiler import tree, types
from compiler.source import Source


def pretty(program: tree.Program, skip: Callable[[tree.Decl], bool] | None = None) -> str:
    """The declarations as P4; `skip` leaves some out."""
    printer = _Printer()
    for decl in program.decls:
        if skip is None or not skip(decl):
            printer.declaration(decl)
    return "\n".join(printer.lines) + "\n"


def pretty_checked(program: tree.TypedProgram) -> str:
    """The checked program as P4: casts that were put in are written out, types and values follow in comments."""
    token = _typed.set(True)
    try:
        return pretty_source(program.source, program.tree)
    finally:
        _typed.reset(token)


PATHS = (tree.Name, tree.This, tree.TypeExpr, tree.Member, tree.Index, tree.Slice, tree.PlusSlice)
"""Expressions that are printed in one piece: `hdr.stack[1].field`."""

NOTED = (tree.Call, tree.Binary, tree.Unary, *PATHS)
"""Expressions whose type or value a reader may want to know."""

VALUES = (
    types.BitType,
    types.InfIntType,
    types.BoolType,
    types.VarbitType,
    types.ErrorType,
    types.EnumType,
    types.SerEnumType,
    types.RecordType,
    types.StackType,
    types.TupleType,
)
"""Types whose values exist while a packet is processed."""

_typed: ContextVar[bool] = ContextVar("typed", default=False)

SYSTEM = ("core.p4", "v1model.p4")


def pretty_source(source: Source, program: tree.Program) -> str:
    """The program as P4, with `#include` for what the system's files declare."""
    seen: dict[str, None] = {}

    def skip(decl: tree.Decl) -> bool:
        name = Path(source.locate(decl.pos).file).name
        if name in SYSTEM:
            seen[name] = None
        return name in SYSTEM

    text = pretty(program, skip)
    head = "".join(f"#include <{name}>\n" for name in seen)
    for decl in program.decls:
        if isinstance(decl, tree.ConstDecl) and decl.name == "__v1model_version":
            head = f"#define V1MODEL_VERSION {decl.value or _plain(decl.init)}\n{head}"
    return head + text


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# --------------------------------------------------------------------------- types and expressions


def type_text(ref: tree.TypeRef) -> str:
    """A type as written."""
    if isinstance(ref, tree.BaseTypeRef):
        if ref.size is None:
            return ref.name
        size = _plain(ref.size)
        return f"{ref.name}<{size}>" if isinstance(ref.size, tree.IntLiteral) else f"{ref.name}<({size})>"
    if isinstance(ref, tree.NamedTypeRef):
        name = ("." if ref.absolute else "") + ref.name
        return name if not ref.args else f"{name}<{', '.join(map(type_text, ref.args))}>"
    if isinstance(ref, tree.StackTypeRef):
        return f"{type_text(ref.element)}[{_plain(ref.size)}]"
    if isinstance(ref, tree.TupleTypeRef):
        return f"tuple<{', '.join(map(type_text, ref.elements))}>"
    assert isinstance(ref, tree.ListTypeRef)
    return f"list<{type_text(ref.element)}>"


def _literal(node: tree.IntLiteral) -> str:
    if node.width is None:
        return str(node.number)
    return f"{node.width}{'s' if node.signed else 'w'}{node.number}"


def expr_text(node: tree.Expr) -> str:
    """An expression, fully parenthesised."""
    return _typed_text(node) if _typed.get() else _plain(node)


def _plain(node: tree.Expr) -> str:
    text: Callable[[Any], str] | None = _EXPRESSIONS.get(type(node))
    assert text is not None, node
    token = _typed.set(False) if isinstance(node, PATHS) else None
    try:
        return text(node)
    finally:
        if token is not None:
            _typed.reset(token)


def _typed_text(node: tree.Expr) -> str:
    """With what the checker found out: implicit casts, and behind places and calls `/* type */` or `/* = value */`."""
    base = types.underlying(node.type)
    number = node.value
    literal = isinstance(node, tree.IntLiteral | tree.Cast) and isinstance(number, int)
    if literal and isinstance(node.type, types.BitType) and number >= 0:
        return f"{node.type.width}{'s' if node.type.signed else 'w'}{number}"
    text = _plain(node)
    if isinstance(node, tree.Cast) and node.ref is None:
        return f"(({node.type}){text})"
    told = isinstance(node, tree.Binary | tree.Unary) and isinstance(base, types.BoolType)
    if not told and isinstance(node, NOTED) and isinstance(base, VALUES):
        known = isinstance(number, int) and not isinstance(base, types.BoolType)
        return f"{text} /* {f'= {number}' if known else node.type} */"
    return text


def _all(nodes: Sequence[tree.Expr]) -> str:
    return ", ".join(map(expr_text, nodes))


def _call(node: tree.Call) -> str:
    generics = "" if not node.type_args else f"<{', '.join(map(type_text, node.type_args))}>"
    return f"{_plain(node.callee)}{generics}({_arguments(node.args)})"


def _arguments(arguments: Sequence[tree.Argument]) -> str:
    return ", ".join(f"{a.name} = {expr_text(a.expr)}" if a.name else expr_text(a.expr) for a in arguments)


def _braces(parts: list[str], dots: bool) -> str:
    return f"{{ {', '.join([*parts, *(['...'] if dots else [])])} }}"


_EXPRESSIONS: dict[type, Callable[[Any], str]] = {
    tree.IntLiteral: _literal,
    tree.BoolLiteral: lambda n: "true" if n.truth else "false",
    tree.StringLiteral: lambda n: _string(n.text),
    tree.Name: lambda n: ("." if n.absolute else "") + n.name,
    tree.This: lambda n: "this",
    tree.TypeExpr: lambda n: type_text(n.ref),
    tree.Member: lambda n: f"{expr_text(n.expr)}.{n.name}",
    tree.Index: lambda n: f"{expr_text(n.expr)}[{expr_text(n.index)}]",
    tree.Slice: lambda n: f"{expr_text(n.expr)}[{expr_text(n.high)}:{expr_text(n.low)}]",
    tree.PlusSlice: lambda n: f"{expr_text(n.expr)}[{expr_text(n.low)}+:{expr_text(n.width)}]",
    tree.Unary: lambda n: f"({n.op}{expr_text(n.expr)})",
    tree.Binary: lambda n: f"({expr_text(n.left)} {n.op} {expr_text(n.right)})",
    tree.Ternary: lambda n: f"({expr_text(n.condition)} ? {expr_text(n.yes)} : {expr_text(n.no)})",
    tree.Cast: lambda n: expr_text(n.expr) if n.ref is None else f"(({type_text(n.ref)}){expr_text(n.expr)})",
    tree.ListExpr: lambda n: _braces([expr_text(e) for e in n.elements], n.dots),
    tree.StructExpr: lambda n: _braces([f"{f.name} = {expr_text(f.expr)}" for f in n.fields], n.dots),
    tree.InvalidHeader: lambda n: "{#}",
    tree.Dots: lambda n: "...",
    tree.DontCare: lambda n: "_",
    tree.DefaultExpr: lambda n: "default",
    tree.MaskExpr: lambda n: f"{expr_text(n.left)} &&& {expr_text(n.mask)}",
    tree.RangeExpr: lambda n: f"{expr_text(n.low)} .. {expr_text(n.high)}",
    tree.TupleKeyset: lambda n: f"({', '.join(map(_keyset, n.elements))})",
    tree.Call: _call,
}


def _keyset(node: tree.Expr) -> str:
    return "_" if isinstance(node, tree.DefaultExpr) else expr_text(node)


# --------------------------------------------------------------------------- declarations and statements


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def nest(self, head: str, body: Callable[[], None], tail: str = "}") -> None:
        self.line(head + " {")
        self.depth += 1
        body()
        self.depth -= 1
        self.line(tail)

    @staticmethod
    def each(handler: Callable[[Any], None], items: Sequence[Any]) -> None:
        for item in items:
            handler(item)

    def annotations(self, items: Sequence[tree.Annotation]) -> None:
        for item in items:
            if item.pragma:
                self.lines.append(f"@pragma {item.name} {item.text or ' '.join(item.tokens)}")
            else:
                self.line(_annotation(item))

    @staticmethod
    def inline_annotations(items: Sequence[tree.Annotation]) -> str:
        return "".join(f"{_annotation(item)} " for item in items if not item.pragma)

    # ------------------------------------------------------------------ declarations

    def declaration(self, decl: tree.Decl) -> None:
        """Any declaration."""
        self.annotations(decl.annotations)
        handler = getattr(self, f"_{type(decl).__name__}", None)
        assert handler is not None, decl
        handler(decl)

    def params(self, params: Sequence[tree.Param]) -> str:
        parts = []
        for p in params:
            head = self.inline_annotations(p.annotations) + (f"{p.direction} " if p.direction else "")
            default = "" if p.default is None else f" = {expr_text(p.default)}"
            parts.append(f"{head}{type_text(p.ref)} {p.name}{default}")
        return f"({', '.join(parts)})"

    @staticmethod
    def generics(params: Sequence[tree.TypeParam]) -> str:
        return f"<{', '.join(p.name for p in params)}>" if params else ""

    def _ConstDecl(self, d: tree.ConstDecl) -> None:
        self.line(f"const {type_text(d.ref)} {d.name} = {expr_text(d.init)};")

    def _VarDecl(self, d: tree.VarDecl) -> None:
        init = "" if d.init is None else f" = {expr_text(d.init)}"
        self.line(f"{type_text(d.ref)} {d.name}{init};")

    def _InstanceDecl(self, d: tree.InstanceDecl) -> None:
        head = f"{type_text(d.ref)}({_arguments(d.call.args)}) {d.name}"
        if d.initializer is None:
            self.line(f"{head};")
        else:
            inner = d.initializer
            self.nest(f"{head} =", lambda: self.each(self.declaration, inner), "};")

    def _RecordDecl(self, d: tree.RecordDecl) -> None:
        def body() -> None:
            for f in d.fields:
                self.annotations(f.annotations)
                self.line(f"{type_text(f.ref)} {f.name};")

        self.nest(f"{d.keyword} {d.name}{self.generics(d.type_params)}", body)

    def members(self, members: Sequence[tree.EnumMember]) -> str:
        parts = [m.name if m.init is None else f"{m.name} = {expr_text(m.init)}" for m in members]
        return ", ".join(parts)

    def _EnumDecl(self, d: tree.EnumDecl) -> None:
        base = "" if d.ref is None else f"{type_text(d.ref)} "
        self.line(f"enum {base}{d.name} {{ {self.members(d.members)} }}")

    def _ErrorDecl(self, d: tree.ErrorDecl) -> None:
        self.line(f"error {{ {self.members(d.members)} }}")

    def _MatchKindDecl(self, d: tree.MatchKindDecl) -> None:
        self.line(f"match_kind {{ {self.members(d.members)} }}")

    def _TypedefDecl(self, d: tree.TypedefDecl) -> None:
        if d.inline is not None:
            self.declaration(d.inline)
        self.line(f"{'type' if d.newtype else 'typedef'} {type_text(d.ref)} {d.name};")

    def _ExternMethod(self, d: tree.ExternMethod) -> None:
        result = "" if d.result is None else f"{type_text(d.result)} "
        abstract = "abstract " if d.abstract else ""
        self.line(f"{abstract}{result}{d.name}{self.generics(d.type_params)}{self.params(d.params)};")

    def _ExternDecl(self, d: tree.ExternDecl) -> None:
        methods = d.methods
        self.nest(
            f"extern {d.name}{self.generics(d.type_params)}",
            lambda: self.each(self.declaration, methods),
        )

    def _ExternFunction(self, d: tree.ExternFunction) -> None:
        self.line(
            f"extern {type_text(d.result)} {d.name}{self.generics(d.type_params)}{self.params(d.params)};"
        )

    def _FunctionDecl(self, d: tree.FunctionDecl) -> None:
        self.block(
            f"{type_text(d.result)} {d.name}{self.generics(d.type_params)}{self.params(d.params)}", d.body
        )

    def _ActionDecl(self, d: tree.ActionDecl) -> None:
        self.block(f"action {d.name}{self.params(d.params)}", d.body)

    def applicable(self, word: str, d: tree.ApplicableDecl) -> str:
        return f"{word} {d.name}{self.generics(d.type_params)}{self.params(d.params)}"

    def _ParserTypeDecl(self, d: tree.ParserTypeDecl) -> None:
        self.line(self.applicable("parser", d) + ";")

    def _ControlTypeDecl(self, d: tree.ControlTypeDecl) -> None:
        self.line(self.applicable("control", d) + ";")

    def _PackageDecl(self, d: tree.PackageDecl) -> None:
        self.line(self.applicable("package", d) + ";")

    def constructor(self, word: str, d: tree.ParserDecl | tree.ControlDecl) -> str:
        extra = self.params(d.constructor_params) if d.constructor_params else ""
        return self.applicable(word, d) + extra

    def _ParserDecl(self, d: tree.ParserDecl) -> None:
        def body() -> None:
            for local in d.locals:
                self.declaration(local)
            for state in d.states:
                self.declaration(state)

        self.nest(self.constructor("parser", d), body)

    def _ControlDecl(self, d: tree.ControlDecl) -> None:
        def body() -> None:
            for local in d.locals:
                self.declaration(local)
            self.block("apply", d.body)

        self.nest(self.constructor("control", d), body)

    def _ValueSetDecl(self, d: tree.ValueSetDecl) -> None:
        self.line(f"value_set<{type_text(d.ref)}>({expr_text(d.size)}) {d.name};")

    def _StateDecl(self, d: tree.StateDecl) -> None:
        def body() -> None:
            for item in d.body:
                self.statement(item)
            if isinstance(d.transition, tree.Transition):
                self.line(f"transition {d.transition.name};")
            elif d.transition is not None:
                self.select(d.transition)

        self.nest(f"state {d.name}", body)

    def select(self, node: tree.Select) -> None:
        def body() -> None:
            for case in node.cases:
                keys = case.keys
                text = _keyset(keys[0]) if len(keys) == 1 else f"({', '.join(map(_keyset, keys))})"
                self.line(f"{text}: {case.name};")

        self.nest(f"transition select({_all(node.exprs)})", body)

    def _TableDecl(self, d: tree.TableDecl) -> None:
        def keys() -> None:
            for key in d.keys:
                notes = "".join(f" {_annotation(a)}" for a in key.annotations)
                self.line(f"{expr_text(key.expr)}: {key.match_kind}{notes};")

        def actions() -> None:
            for ref in d.actions:
                self.line(f"{self.inline_annotations(ref.annotations)}{_action(ref)};")

        def entries() -> None:
            for entry in d.entries:
                const = "const " if entry.const else ""
                priority = "" if entry.priority is None else f"priority = {expr_text(entry.priority)}: "
                keys = entry.keys
                text = _keyset(keys[0]) if len(keys) == 1 else f"({', '.join(map(_keyset, keys))})"
                notes = "".join(f" {_annotation(a)}" for a in entry.annotations)
                self.line(f"{const}{priority}{text}: {_action(entry.action)}{notes};")

        def body() -> None:
            if d.has_keys:
                self.nest("key =", keys)
            self.nest("actions =", actions)
            if d.has_entries:
                self.nest(f"{'const ' if d.entries_const else ''}entries =", entries)
            for prop in d.properties:
                self.annotations(prop.annotations)
                self.line(f"{'const ' if prop.const else ''}{prop.name} = {expr_text(prop.expr)};")

        self.nest(f"table {d.name}", body)

    # ------------------------------------------------------------------ statements

    def block(self, head: str, node: tree.Block) -> None:
        """`head { … }`."""
        notes = self.inline_annotations(node.annotations)
        self.nest(f"{head} {notes}".rstrip(), lambda: self.each(self.statement, node.statements))

    def body(self, head: str, node: tree.Statement) -> None:
        """A statement under a head, in braces."""
        if isinstance(node, tree.Block):
            self.block(head, node)
        else:
            self.nest(head, lambda: self.statement(node))

    def statement(self, node: tree.Statement | tree.Decl) -> None:
        """Any statement."""
        if isinstance(node, tree.Decl):
            self.declaration(node)
        elif isinstance(node, tree.Block):
            self.block("", node)
        elif isinstance(node, tree.Assign):
            self.line(f"{expr_text(node.left)} {node.op}= {expr_text(node.right)};")
        elif isinstance(node, tree.CallStatement):
            self.line(f"{expr_text(node.call)};")
        elif isinstance(node, tree.If):
            self.body(f"if ({expr_text(node.condition)})", node.then)
            if node.otherwise is not None:
                self.body("else", node.otherwise)
        elif isinstance(node, tree.Switch):
            self.switch(node)
        elif isinstance(node, tree.For):
            init = ", ".join(self.simple(s) for s in node.init)
            update = ", ".join(self.simple(s) for s in node.update)
            self.body(f"for ({init}; {expr_text(node.condition)}; {update})", node.body)
        elif isinstance(node, tree.ForIn):
            head = f"for ({type_text(node.var.ref)} {node.var.name} in {expr_text(node.collection)})"
            self.body(head, node.body)
        elif isinstance(node, tree.Return):
            self.line("return;" if node.expr is None else f"return {expr_text(node.expr)};")
        else:
            words = {tree.Exit: "exit;", tree.Break: "break;", tree.Continue: "continue;", tree.Empty: ";"}
            self.line(words[type(node)])

    def simple(self, node: tree.Statement | tree.Decl) -> str:
        """A statement of a `for` head, without its semicolon."""
        inner = _Printer()
        inner.statement(node)
        return " ".join(inner.lines).rstrip(";")

    def switch(self, node: tree.Switch) -> None:
        def body() -> None:
            for case in node.cases:
                label = expr_text(case.label)
                if case.body is None:
                    self.line(f"{label}:")
                else:
                    self.block(f"{label}:", case.body)

        self.nest(f"switch ({expr_text(node.expr)})", body)


def _annotation(item: tree.Annotation) -> str:
    if item.form == "plain":
        return f"@{item.name}"
    if item.form == "tokens":
        return f"@{item.name}({item.text or ' '.join(item.tokens)})"
    if item.form == "list":
        return f"@{item.name}[{_all(item.exprs)}]"
    return f"@{item.name}[{', '.join(f'{p.name} = {expr_text(p.expr)}' for p in item.pairs)}]"


def _action(ref: tree.ActionRef) -> str:
    name = ("." if ref.absolute else "") + ref.name
    return name if ref.args is None else f"{name}({_arguments(ref.args)})"
