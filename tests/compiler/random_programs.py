"""Random P4 programs with fully defined behaviour: control flow, calls with copies, exit, tables, slices, stacks.

They keep away from what p4c gets wrong: an `exit` in a control whose arguments share storage (it forgets the copies
out), and a call on the right of an assignment that changes the index, or the old value, on the left.
"""

from __future__ import annotations

from random import Random

HEAD = """
#include <core.p4>
#include <v1model.p4>
header bytes_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<16> w; int<8> s; int<8> t; }
struct pair_t { bit<8> x; bit<8> y; }
struct meta_t { bit<8> m; pair_t pair; }
struct headers_t { bytes_t h; bytes_t[3] items; }
parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); p.extract(hdr.items.next); p.extract(hdr.items.next); p.extract(hdr.items.next);
                  transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
"""
SIZE = 4 * 8
"""Bytes that the parser takes."""

FIELDS = [f"hdr.h.{n}" for n in "abcd"] + ["hdr.items[0].a", "hdr.items[1].b", "hdr.items[2].c"]


class Generator:
    """Makes one program from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.functions: list[tuple[str, list[str]]] = []
        self.actions: list[tuple[str, list[str]]] = []
        self.controls: list[str] = []
        self.tables: list[tuple[str, list[str]]] = []
        self.count = 0

    def name(self, base: str) -> str:
        """A new name."""
        self.count += 1
        return f"{base}{self.count}"

    # ------------------------------------------------------------------ expressions

    def expr(self, names: list[str], depth: int = 3, calls: bool = True) -> str:
        """A bit<8> expression over 8-bit places."""
        r = self.random
        if depth == 0 or r.random() < 0.3:
            return r.choice([*names, f"8w{r.choice([0, 1, 2, 5, 127, 128, 255])}"])
        kind = r.choice(
            ["+", "-", "&", "|", "^", "|+|", "|-|", "?", "slice", "~", "*", "cast", "call", "shift"]
        )
        left = self.expr(names, depth - 1, calls)
        if kind == "~":
            return f"(~{left})"
        if kind == "slice":
            high = r.randrange(8)
            return f"((bit<8>)({left})[{high}:{r.randrange(high + 1)}])"
        if kind == "cast":
            return f"((bit<8>)((bit<16>)({left}) << 3 >> {r.randrange(6)}))"
        if kind == "shift":
            return f"({left} {r.choice(['<<', '>>'])} {r.randrange(10)})"
        if kind == "call":
            usable = [f for f in self.functions if "in" in f[1] or names]
            if calls and usable:
                return self.call(r.choice(usable), names, depth - 1)
            return left
        right = self.expr(names, depth - 1, calls)
        if kind == "?":
            return f"({self.condition(names, depth - 1, calls)} ? {left} : {right})"
        return f"({left} {kind} {right})"

    def condition(self, names: list[str], depth: int = 2, calls: bool = True) -> str:
        """A bool expression."""
        r = self.random
        kind = r.choice(["==", "<", ">=", "!=", "&&", "||", "!"])
        if depth > 0 and kind in ("&&", "||"):
            return f"({self.condition(names, depth - 1, calls)} {kind} {self.condition(names, depth - 1, calls)})"
        if depth > 0 and kind == "!":
            return f"(!{self.condition(names, depth - 1, calls)})"
        op = kind if kind in ("==", "<", ">=", "!=") else "<"
        return f"({self.expr(names, 1, calls)} {op} {self.expr(names, 1, calls)})"

    def call(self, callee: tuple[str, list[str]], names: list[str], depth: int) -> str:
        """A call of a function or action."""
        arguments = [
            self.expr(names, depth, calls=False) if d == "in" else self.random.choice(names)
            for d in callee[1]
        ]
        return f"{callee[0]}({', '.join(arguments)})"

    # ------------------------------------------------------------------ statements

    def statement(self, names: list[str], depth: int, place: str) -> str:
        """A statement; `place` is function, action or control."""
        r = self.random
        kinds = ["assign"] * 4 + ["slice", "op", "if", "if", "call"]
        if place == "control":
            kinds += ["table", "table", "switch", "hit", "sub"]
        if place != "function":
            kinds += ["action", "index"]
        if depth < 3:
            kinds += ["leave"]
        kind = r.choice(kinds)
        target = r.choice(names)
        if kind == "slice":
            high = r.randrange(8)
            low = r.randrange(high + 1)
            return f"{target}[{high}:{low}] = ({self.expr(names, 2)})[{high - low}:0];"
        if kind == "op":
            return f"{target} {r.choice(['+', '-', '|', '^', '|+|'])}= {self.expr(names, 2, calls=False)};"
        if kind == "index":
            index = f"({self.expr(names, 1, calls=False)})[0:0]"
            return f"hdr.items[(bit<2>){index}].d = {self.expr(names, 1, calls=False)};"
        if kind == "if" and depth > 0:
            other = f" else {{ {self.body(names, depth - 1, place)} }}" if r.random() < 0.5 else ""
            return f"if ({self.condition(names)}) {{ {self.body(names, depth - 1, place)} }}{other}"
        if kind == "call" and self.functions:
            return f"{self.call(r.choice(self.functions), names, 1)};"
        if kind == "action" and self.actions:
            return f"{self.call(r.choice(self.actions), names, 1)};"
        if kind == "leave" and r.random() < 0.5:
            if place == "function":
                return f"if ({self.condition(names)}) {{ return {self.expr(names, 1)}; }}"
            return f"if ({self.condition(names)}) {{ {r.choice(['exit', 'return'])}; }}"
        if kind == "table" and self.tables:
            return f"{self.tables.pop()[0]}.apply();"
        if kind == "hit" and self.tables and depth > 0:
            word = r.choice(["hit", "miss"])
            return f"if ({self.tables.pop()[0]}.apply().{word}) {{ {self.body(names, depth - 1, place)} }}"
        if kind == "switch" and self.tables and depth > 0:
            table, actions = self.tables.pop()
            cases = "".join(f"{a}: {{ {self.body(names, depth - 1, place)} }} " for a in actions[:1])
            cases += f"default: {{ {self.body(names, depth - 1, place)} }}"
            return f"switch ({table}.apply().action_run) {{ {cases} }}"
        if kind == "sub" and self.controls:
            return f"{self.controls.pop()}.apply(hdr, {r.choice(['l', 'meta.m'])}, meta.pair.y);"
        return f"{target} = {self.expr(names, 3)};"

    def body(self, names: list[str], depth: int, place: str) -> str:
        """A few statements."""
        return " ".join(self.statement(names, depth, place) for _ in range(self.random.randrange(1, 4)))

    # ------------------------------------------------------------------ declarations

    def directions(self, most: int = 3) -> list[str]:
        """Directions of a parameter list."""
        return [self.random.choice(["in", "inout", "out"]) for _ in range(self.random.randrange(1, most + 1))]

    def callable(self, place: str, outer: list[str]) -> str:
        """A function or action; `outer` are places that its body sees besides its parameters."""
        name = self.name("f" if place == "function" else "act")
        directions = self.directions()
        params = [f"p{i}" for i in range(len(directions))]
        writable = [p for p, d in zip(params, directions, strict=True) if d != "in"] + outer + ["v"]
        start = " ".join(
            f"{p} = {i + 3};" for i, (p, d) in enumerate(zip(params, directions, strict=True)) if d == "out"
        )
        readable = [p for p, d in zip(params, directions, strict=True) if d == "in"]
        first = f"bit<8> v = {self.expr([*readable, *writable[:-1]] or ['8w9'], 1, calls=False)};"
        if start:
            first = f"{start} {first}"
        text = ", ".join(f"{d} bit<8> {p}" for d, p in zip(directions, params, strict=True))
        inner = self.body(writable, 2, place)
        if place == "function":
            done = f"bit<8> {name}({text}) {{ {first} {inner} return {self.expr(writable, 1)}; }}"
            self.functions.append((name, directions))
        else:
            done = f"action {name}({text}) {{ {first} {inner} }}"
            self.actions.append((name, directions))
        return done

    def table(self, names: list[str], exits: bool) -> str:
        """A table with constant entries and two actions of its own."""
        name = self.name("t")
        first, second = self.name("set"), self.name("set")
        leave = "exit;" if exits and self.random.random() < 0.4 else ""
        text = f"action {first}(bit<8> v) {{ {self.random.choice(names)} = v; {leave} }} "
        text += f"action {second}() {{ {self.body(names, 1, 'action')} }} "
        rows = " ".join(
            f"{number}: {self.random.choice([f'{first}({number + 1})', f'{second}()'])};"
            for number in (0, 1, 2, 5, 255)
        )
        self.tables.append((name, [first, second]))
        key = self.expr(names, 1, calls=False)
        return text + (
            f'table {name} {{ key = {{ {key}: exact @name("key"); }} actions = {{ {first}; {second}; NoAction; }} '
            f"const entries = {{ {rows} }} default_action = {second}(); }}"
        )

    def program(self) -> str:
        """The program."""
        functions = "\n".join(self.callable("function", []) for _ in range(3))
        sub_names = ["x", "y", "hdr.h.a", "hdr.items[1].b", "z"]
        sub_parts = [self.callable("action", ["z", "hdr.h.b"]), self.table(sub_names, True)]
        sub_body = self.body(sub_names, 2, "control")
        self.actions.clear()
        self.tables.clear()
        sub = (
            "control Sub(inout headers_t hdr, inout bit<8> x, inout bit<8> y) { bit<8> z = 7; "
            + "\n".join(sub_parts)
            + f" apply {{ {sub_body} }} }}"
        )
        names = [*FIELDS, "meta.m", "meta.pair.x", "l"]
        parts = [self.callable("action", ["l", *FIELDS[:3]]) for _ in range(2)]
        parts += [self.table(names, True) for _ in range(3)]
        self.controls = ["sub"]
        body = " ".join(self.statement(names, 3, "control") for _ in range(8))
        main = (
            "control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {\n"
            " Sub() sub; bit<8> l = 1;\n"
            + "\n".join(parts)
            + f"\n apply {{ meta.m = 0; meta.pair = {{ 3, 4 }}; {body} hdr.h.d = hdr.h.d ^ meta.m ^ l; }} }}"
        )
        return f"{HEAD}\n{functions}\n{sub}\n{main}\nV1Switch(P(), V(), I(), E(), V(), D()) main;\n"
