"""Hostile and half-right P4: programs grown from the grammar, and mutations of programs that compile.

Both draw from a `random.Random`; hypothesis can supply one that it knows how to shrink.
"""

from __future__ import annotations

import re
from random import Random

from tests.compiler.random_programs import Generator
from tests.compiler.walk import PROGRAM

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|\d\w*|[-+&|=<>!~^.]+|\s+|.', re.DOTALL
)
NUMBERS = (
    "0",
    "1",
    "8w255",
    "4s-1",
    "0xFFFF_FFFF_FFFF_FFFF_FF",
    "1w2",
    "32w0",
    "0b",
    "9999999999w1",
    "-1",
    "2s1",
)
WORDS = (
    "apply state transition select table actions key default_action entries const in out inout return exit if else "
    "switch for header struct header_union enum bit int varbit bool error tuple list parser control extern action "
    "typedef type package value_set this default accept reject _ ... {#} ? :"
).split()
TEXTS = ('"', "/*", "//", "@name(", "@", "\\", "é", "\x00", "#if 1", "#include <x>", '"\n', "'", "`", "$")


INCLUDES = re.compile(r"#include <(?:core|v1model)\.p4>\n")


def nearly_right(random: Random) -> str:
    """A random program that compiles, but for `#include <v1model.p4>` and a change or two."""
    text = INCLUDES.sub("", Generator(random.randrange(1 << 30)).program())
    return mutate(text, random, Grower(random).program())


class Grower:
    """One program from the grammar: names mostly exist, types mostly fit, and often they do not."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.tame = random.choice([0.0, 0.5, 0.9, 0.97])
        """How often an expression is a plain number."""
        self.types = ["bit<8>", "bit<16>", "int<8>", "bool", "word_t", "item_t", "meta_t", "error"]
        self.values = ["hdr.h.a", "hdr.h.b", "hdr.h.w", "hdr.h.s", "meta.m", "meta.flag", "hdr.word.x", "hdr"]
        self.values += [
            "hdr.items",
            "hdr.items[1].v",
            "hdr.items[hdr.h.a].v",
            "sm.egress_spec",
            "sm.parser_error",
        ]
        self.callables = [
            "hdr.h.isValid",
            "hdr.word.setValid",
            "hdr.items.push_front",
            "mark_to_drop",
            "hash",
        ]
        self.callables += [
            "log_msg",
            "digest",
            "clone",
            "p.extract",
            "p.lookahead<bit<8>>",
            "p.emit",
            "verify",
        ]
        self.actions = ["NoAction"]
        self.tables: list[str] = []
        self.states = ["accept", "reject", "start", "more"]
        self.count = 0

    def pick(self, *choices: str) -> str:
        """One of these."""
        return self.random.choice(choices)

    def name(self, base: str) -> str:
        """Usually a new name."""
        self.count += 1
        return f"{base}{self.random.choice([self.count, self.count, self.count, 1])}"

    def many(self, make: object, least: int = 0, most: int = 3, joint: str = " ") -> str:
        """Some of what `make` makes."""
        return joint.join(make() for _ in range(self.random.randint(least, most)))  # type: ignore[operator]

    # ------------------------------------------------------------------ types and expressions

    def type(self, depth: int = 2) -> str:
        """A type."""
        r = self.random
        if depth == 0 or r.random() < 0.6:
            return r.choice(self.types)
        return r.choice(
            [
                lambda: f"bit<{self.pick('1', '7', '64', '129', '0', '(4 + 4)', 'hdr.h.a', '-3')}>",
                lambda: f"int<{self.pick('2', '32', '1', '0')}>",
                lambda: f"varbit<{self.pick('32', '64', '3')}>",
                lambda: f"tuple<{self.type(depth - 1)}, {self.type(depth - 1)}>",
                lambda: f"list<{self.type(depth - 1)}>",
                lambda: f"{self.type(depth - 1)}[{self.pick('2', '0', '-1', 'hdr.h.a', '3')}]",
                lambda: self.pick(
                    "int", "string", "void", "packet_in", "register<bit<8>>", "nothing_t", "G<bit<8>>"
                ),
            ]
        )()

    def expr(self, depth: int = 3) -> str:
        """An expression."""
        r = self.random
        if r.random() < self.tame:
            return self.number(depth)
        if depth == 0 or r.random() < 0.35:
            return r.choice(
                [*self.values, *NUMBERS[:8], "true", "error.NoMatch", "{#}", '"text"', "_", "..."]
            )
        e = lambda: self.expr(depth - 1)  # noqa: E731
        operators = "+ - * / % & | ^ << >> |+| |-| ++ == != < <= > >= && || &&& ..".split()
        return r.choice(
            [
                lambda: f"({e()} {r.choice(operators)} {e()})",
                lambda: f"{self.pick('-', '~', '!', '+')}{e()}",
                lambda: f"({e()} ? {e()} : {e()})",
                lambda: f"({self.type(1)})({e()})",
                lambda: f"{e()}[{self.pick('7', '3', '200', '-1', 'hdr.h.a')}:{self.pick('0', '4', 'x')}]",
                lambda: f"{e()}[{e()}]",
                lambda: f"{{ {self.many(e, 0, 3, ', ')} }}",
                lambda: f"{{ x = {e()}, y = {e()} }}",
                lambda: (
                    f"{e()}.{self.pick('x', 'isValid()', 'last', 'next', 'lastIndex', 'size', 'apply()', 'hit')}"
                ),
                lambda: self.call(depth - 1),
            ]
        )()

    def number(self, depth: int) -> str:
        """An expression of type bit<8>."""
        if depth == 0 or self.random.random() < 0.3:
            return self.pick(
                "hdr.h.a", "hdr.h.b", "meta.m", "hdr.items[1].v", "hdr.items[hdr.h.a].v", "8w3", "5"
            )
        n = lambda: self.number(depth - 1)  # noqa: E731
        operator = self.pick("+", "-", "*", "&", "|", "^", "<<", ">>", "|+|", "|-|")
        return self.random.choice(
            [
                lambda: f"({n()} {operator} {n()})",
                lambda: f"(hdr.h.a {self.pick('==', '<', '>=', '!=')} {n()} ? {n()} : 8w1)",
                lambda: f"({n()} ++ {n()})[11:4]",
                lambda: f"(bit<8>)(int<8>)({n()})",
                lambda: "(bit<8>)(bit<1>)hdr.items[hdr.h.a].isValid()",
                lambda: f"({{ {n()}, 8w1 }} == {{ 8w2, {n()} }} ? 8w1 : 2)",
            ]
        )()

    def call(self, depth: int = 2) -> str:
        """A call of something, with arguments of any kind."""
        r = self.random
        what = r.choice([*self.callables, *self.actions, *[f"{t}.apply" for t in self.tables]])
        arguments = self.many(lambda: self.expr(depth), 0, 3, ", ")
        return f"{what}{self.pick('', '', '', '<bit<8>>')}({arguments})"

    # ------------------------------------------------------------------ statements

    def statement(self, depth: int = 2) -> str:
        """A statement."""
        r = self.random
        s = lambda: self.statement(depth - 1)  # noqa: E731
        simple = [
            lambda: f"hdr.h.{self.pick('a', 'b[3:0]', 'c')} {self.pick('=', '+=', '|-|=')} {self.number(2)};",
            lambda: (
                f"{r.choice(self.values)} {self.pick('=', '=', '+=', '|-|=', '<<=', '++=')} {self.expr()};"
            ),
            lambda: f"{self.call()};",
            self.variable,
            lambda: self.pick("return;", "exit;", "break;", "continue;", ";", f"return {self.expr(1)};"),
        ]
        if depth == 0:
            return r.choice(simple)()
        return r.choice(
            [
                *simple,
                lambda: f"if ({self.expr(2)}) {s()} {self.pick('', f'else {s()}')}",
                lambda: f"{{ {self.many(s)} }}",
                lambda: f"for (bit<8> i = 0; {self.expr(1)}; i += 1) {{ {s()} }}",
                lambda: f"for ({self.type(1)} i in {self.expr(1)} .. {self.expr(1)}) {{ {s()} }}",
                lambda: f"for ({self.type(1)} i in {self.expr(1)}) {s()}",
                lambda: f"switch ({self.expr(1)}) {{ {self.expr(1)}: {{ {s()} }} default: {{ }} }}",
                lambda: (
                    f"switch ({r.choice([*self.tables, 't'])}.apply().action_run) "
                    f"{{ {r.choice(self.actions)}: {{ {s()} }} }}"
                ),
            ]
        )()

    def variable(self) -> str:
        """A declaration of a variable or constant."""
        name, kind = self.name("v"), self.type()
        text = f"{self.pick('', '', 'const ')}{kind} {name}{self.pick('', f' = {self.expr(2)}')};"
        self.values.append(name)
        return text

    # ------------------------------------------------------------------ declarations

    def declaration(self) -> str:
        """Something at the top level."""
        r = self.random
        name = self.name("T")
        field = lambda: f"{self.pick('', '', '@field_list(1) ')}{self.type(1)} {self.pick('x', 'y', 'z')};"  # noqa: E731
        word = r.choice(
            ["header", "struct", "header_union", "enum", "typedef", "type", "function", "control", "parser"]
        )
        if word in ("header", "struct", "header_union"):
            text = f"{word} {name}{self.pick('', '', '<U>')} {{ {self.many(field)} }}"
        elif word == "enum":
            text = f"enum {self.pick('', 'bit<8>')} {name} {{ A{self.pick('', ' = 1')}, B }}"
        elif word in ("typedef", "type"):
            text = f"{word} {self.type()} {name};"
        elif word == "function":
            self.callables.append(name)
            body = self.many(self.statement)
            return f"{self.type(1)} {name}({self.parameters()}) {{ {body} return {self.expr(1)}; }}"
        elif word == "control":
            return f"control {name}({self.parameters()}) {{ {self.locals()} apply {{ {self.many(self.statement)} }} }}"
        else:
            return f"parser {name}(packet_in p, {self.parameters()}) {{ state start {{ {self.state()} }} }}"
        self.types.append(name)
        return text

    def parameters(self) -> str:
        """A parameter list."""
        one = lambda: f"{self.pick('in', 'out', 'inout', '')} {self.type(1)} {self.pick('x', 'y', 'z')}"  # noqa: E731
        return self.many(one, 1, 2, ", ")

    def locals(self) -> str:
        """Declarations in a control."""
        return self.many(
            lambda: self.random.choice([self.action, self.table, self.variable, self.extern])(), 0, 3
        )

    def action(self) -> str:
        """An action."""
        name = self.name("act")
        text = (
            f"action {name}({self.many(self.parameters, 0, 1)}) {{ {self.many(lambda: self.statement(1))} }}"
        )
        self.actions.append(name)
        return text

    def table(self) -> str:
        """A table."""
        name = self.name("t")
        kinds = "exact lpm ternary range optional selector none".split()

        def key() -> str:
            return f"{self.expr(2)}: {self.random.choice(kinds)} {self.pick('', '@name(chr(34))')};"

        def run() -> str:
            return f"{self.random.choice(self.actions)}({self.many(lambda: self.expr(0), 0, 1)})"

        def entry() -> str:
            return f"{self.expr(1)}: {run()};"

        parts = [
            f"key = {{ {self.many(key)} }}",
            f"actions = {{ {self.random.choice(self.actions)}; NoAction; }}",
            f"{self.pick('', 'const ')}entries = {{ {self.many(entry)} }}"
            if self.random.random() < 0.4
            else "",
            self.pick("", f"default_action = {run()};"),
            self.pick("", f"size = {self.expr(1)};", "implementation = action_profile(8);", "meters = m1;"),
        ]
        self.tables.append(name)
        return f"table {name} {{ {' '.join(parts)} }}"

    def extern(self) -> str:
        """An instance of an extern."""
        name = self.name("m")
        made = self.pick("register<bit<8>>(4)", "counter(4, CounterType.bytes)", "meter(1, MeterType.bytes)")
        self.callables += [f"{name}.read", f"{name}.count"]
        return f"{made} {name};"

    def state(self) -> str:
        """The inside of a parser state."""
        body = self.many(lambda: self.statement(1))
        target = lambda: self.random.choice(self.states)  # noqa: E731
        case = lambda: f"{self.expr(1)}: {target()};"  # noqa: E731
        keys = self.many(lambda: self.expr(2), 1, 2, ", ")
        select = f"transition select({keys}) {{ {self.many(case)} default: accept; }}"
        return f"{body} {self.pick(f'transition {target()};', select)}"

    def program(self) -> str:
        """A whole program, but for `#include <v1model.p4>`."""
        empty = dict.fromkeys(("fields", "compute", "parser_locals"), "")
        text = PROGRAM.format(
            **empty,
            declarations=self.many(self.declaration),
            parser=self.state(),
            states=f"state more {{ {self.state()} }}",
            locals=self.locals(),
            body=self.many(self.statement, 1, 4),
            egress=self.many(self.statement, 0, 1),
        )
        return INCLUDES.sub("", text)


def mutate(text: str, random: Random, other: str = "") -> str:
    """`text` with a few tokens dropped, doubled, swapped, replaced, or taken from `other`."""
    tokens = TOKEN.findall(text)
    donor = TOKEN.findall(other) or tokens
    for _ in range(random.choice([1, 1, 1, 2, 3, 8])):
        if not tokens:
            break
        at = random.randrange(len(tokens))
        kind = random.randrange(9)
        if kind == 0:
            del tokens[at : at + random.choice([1, 1, 2, 10])]
        elif kind == 1:
            tokens[at:at] = tokens[at : at + random.choice([1, 2, 20])]
        elif kind == 2:
            to = random.randrange(len(tokens))
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif kind == 3:
            tokens[at] = random.choice(NUMBERS)
        elif kind == 4:
            tokens[at] = random.choice(WORDS)
        elif kind == 5:
            tokens[at] = random.choice(donor)
        elif kind == 6:
            start = random.randrange(len(donor))
            tokens[at:at] = donor[start : start + random.randrange(30)]
        elif kind == 7:
            tokens.insert(at, random.choice(TEXTS))
        elif random.random() < 0.2:
            del tokens[at:]
    return "".join(tokens)
