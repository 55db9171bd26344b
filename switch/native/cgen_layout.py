"""The packet header vector in C: a struct per header type, and how headers are read from and written to bytes.

A field of at most 64 bits is an unsigned integer of the next size, a wider one an array of 64-bit limbs, a varbit a
byte array with its length in bits. Values are kept within their width; signed fields are sign-extended on use.
Metadata lies together at the front, so that it can be reset at once. A stack has one element more than it is deep:
where accesses out of range go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switch.native.program import Field, Header, HeaderType, Program, Stack, Union, UnionStack, limbs


@dataclass(frozen=True)
class Place:
    """A header in C: an lvalue, its type, whether it is metadata, and the union lvalue and member it is in."""

    lvalue: str
    type: HeaderType
    metadata: bool = False
    union: tuple[str, int, int] | None = None
    """(union lvalue, member, number of members)."""

    def field(self, index: int) -> str:
        """A field's lvalue."""
        return f"{self.lvalue}.f{index}"

    @property
    def valid(self) -> str:
        """A C condition."""
        return "1" if self.metadata else f"{self.lvalue}.valid"

    @property
    def size(self) -> str:
        """A C expression: bytes in a packet."""
        text = str(self.type.fixed_bits // 8)
        for i, f in enumerate(self.type.fields):
            if f.varbit:
                text += f" + {self.lvalue}.f{i}n / 8"
        return text

    def set_valid(self) -> list[str]:
        """Statements that mark it valid; the other members of its union become invalid."""
        lines = [f"{self.lvalue}.valid = 1;"]
        if self.union:
            base, member, count = self.union
            lines += [f"{base}.m{i}.valid = 0;" for i in range(count) if i != member]
        return lines


def c_type(f: Field) -> str:
    """The unsigned integer type of a field of at most 64 bits."""
    for bits in (8, 16, 32):
        if f.width <= bits:
            return f"uint{bits}_t"
    return "uint64_t"


class Layout:
    """Where every header of a program lives in its PHV."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def place(self, header: Header) -> Place:
        """A header by its declaration."""
        kind = header.type
        if header.metadata:
            return Place(f"P->m.h{header.index}", kind, metadata=True)
        if header.stack:
            return Place(f"P->s{header.stack[0]}[{header.stack[1]}]", kind)
        if header.union:
            union = next(u for u in self.program.unions.values() if u.index == header.union[0])
            return self.member(self.union_lvalue(union), union, header.union[1])
        return Place(f"P->h{header.index}", kind)

    def union_lvalue(self, union: Union) -> str:
        """A header union by its declaration."""
        if union.stack:
            return f"P->us{union.stack[0]}[{union.stack[1]}]"
        return f"P->u{union.index}"

    def member(self, lvalue: str, union: Union, member: int) -> Place:
        """A member of a union at `lvalue`."""
        kind = union.members[member].type
        return Place(f"{lvalue}.m{member}", kind, union=(lvalue, member, len(union.members)))

    def element(self, stack: Stack, index: str) -> Place:
        """A stack's element at a C expression, out of range allowed."""
        return Place(f"P->s{stack.index}[xf_element({index}, {len(stack.headers)})]", stack.type)

    def next_of(self, stack: Stack | UnionStack) -> str:
        """The lvalue of a stack's next index."""
        return f"P->{'us' if isinstance(stack, UnionStack) else 's'}{stack.index}_next"

    def last(self, stack: Stack) -> Place:
        """The last extracted element."""
        return self.element(stack, f"(uint64_t){self.next_of(stack)} - 1")

    # ---- C text ----

    def structs(self) -> str:
        """The header structs and the PHV."""
        used = {h.type.index: h.type for h in self.program.headers.values()}
        parts = [self._struct(t) for t in used.values()]
        for union in {u.type: u for u in self.program.unions.values()}.values():
            members = " ".join(f"struct T{m.type.index} m{i};" for i, m in enumerate(union.members))
            parts.append(f"struct U{self._union_type(union.type)} {{ {members} }};")
        lines = ["struct phv {", "    struct {"]
        alone = []
        for header in self.program.headers.values():
            text = f"struct T{header.type.index} h{header.index}; /* {_comment(header.name)} */"
            if header.metadata:
                lines.append("        " + text)
            elif not header.stack and not header.union and not header.type.varbit:
                alone.append("    " + text)
        lines.append("        uint8_t none;")
        lines.append("    } m;")
        lines += alone
        for stack in self.program.stacks.values():
            name = _comment(stack.name)
            depth = len(stack.headers) + 1
            lines.append(f"    struct T{stack.type.index} s{stack.index}[{depth}]; /* {name} */")
            lines.append(f"    uint32_t s{stack.index}_next;")
        for union in self.program.unions.values():
            if not union.stack:
                kind = self._union_type(union.type)
                lines.append(f"    struct U{kind} u{union.index}; /* {_comment(union.name)} */")
        for ustack in self.program.union_stacks.values():
            kind = self._union_type(ustack.unions[0].type)
            lines.append(f"    struct U{kind} us{ustack.index}[{len(ustack.unions) + 1}];")
            lines.append(f"    uint32_t us{ustack.index}_next;")
        fresh = ["memset(P, 0, sizeof *P);"]
        last = self._varbit_headers()
        for header in last:
            lines.append(f"    struct T{header.type.index} h{header.index}; /* {_comment(header.name)} */")
        if last:
            fresh = [f"memset(P, 0, XF_OFFSET(struct phv, h{last[0].index}));"]
            fresh += [
                f"memset(&P->h{h.index}, 0, XF_OFFSET(struct T{h.type.index}, f{h.type.fields.index(h.type.varbit)}));"
                for h in last
                if h.type.varbit
            ]
        lines.append("};")
        lines.append("")
        lines.append(
            "/* As at the parser's start. Bytes of a varbit beyond its length are never looked at. */"
        )
        lines.append("static void fresh(struct phv *P) {")
        lines += [f"    {line}" for line in fresh]
        lines.append("}")
        return "\n\n".join([*parts, "\n".join(lines)])

    def offsets(self) -> list[str]:
        """C constants that say where everything lies: each header type's fields and size, each header, the whole."""
        types = {h.type.index: h.type for h in self.program.headers.values()}
        found = []
        for kind in types.values():
            name = f"struct T{kind.index}"
            found += [f"XF_OFFSET({name}, f{i})" for i in range(len(kind.fields))]
            found += [f"XF_OFFSET({name}, valid)", f"sizeof({name})"]
        for header in self.program.headers.values():
            member = self.place(header).lvalue.removeprefix("P->")
            found.append(f"XF_OFFSET(struct phv, {member})")
        return [*found, "sizeof(struct phv)"]

    def _varbit_headers(self) -> list[Header]:
        """Headers with a varbit lie last in the PHV, so that a new packet need not clear their bytes."""
        return [
            h
            for h in self.program.headers.values()
            if h.type.varbit and not (h.metadata or h.stack or h.union)
        ]

    def _union_type(self, name: str) -> int:
        return sorted({u.type for u in self.program.unions.values()}).index(name)

    @staticmethod
    def _struct(kind: HeaderType) -> str:
        wide, rest, last = [], [], []
        for i, f in enumerate(kind.fields):
            note = f" /* {_comment(f.name)} */"
            if f.varbit:
                rest.append((-32, f"uint32_t f{i}n;"))
                last.append(f"uint8_t f{i}[{max(1, f.width // 8)}];{note}")
            elif f.width > 64:
                wide.append(f"uint64_t f{i}[{limbs(f.width)}];{note}")
            else:
                size = -int(c_type(f)[4:].rstrip("_t"))
                rest.append((size, f"{c_type(f)} f{i};{note}"))
        rest.sort(key=lambda item: item[0])
        lines = wide + [text for _, text in rest] + ["uint8_t valid;", *last]
        body = "\n".join("    " + line for line in lines)
        return f"struct T{kind.index} {{ /* {_comment(kind.name)} */\n{body}\n}};"

    def codecs(self) -> str:
        """Functions that unpack, pack and compare each packet header type."""
        used = {h.type.index: h.type for h in self.program.headers.values() if not h.metadata}
        return "\n\n".join(
            self._unpack(t) + "\n" + self._pack(t) + "\n" + self._equal(t) for t in used.values()
        )

    @staticmethod
    def _unpack(kind: HeaderType) -> str:
        """`unpack_T(h, p, vbits)`: vbits is the varbit's length in bits."""
        lines: list[str] = []
        at = 0
        run: list[tuple[int, Field]] = []
        base = "p"

        def flush() -> None:
            nonlocal at, run
            bits = sum(f.width for _, f in run)
            if not bits:
                run = []
                return
            if len(run) == 1 and run[0][1].width > 64:
                i, f = run[0]
                if at % 8 == 0 and f.width % 64 == 0:
                    n = f.width // 64
                    lines.extend(
                        f"h->f{i}[{k}] = xf_load64({base} + {at // 8 + 8 * (n - 1 - k)});" for k in range(n)
                    )
                else:
                    lines.append(f"xf_w_get(h->f{i}, {limbs(f.width)}, {base}, {at}, {f.width});")
            elif at % 8 == 0 and bits % 8 == 0 and bits <= 64:
                if len(run) == 1:
                    lines.append(f"h->f{run[0][0]} = ({c_type(run[0][1])}){load(base, at // 8, bits // 8)};")
                else:
                    lines.append(f"v = {load(base, at // 8, bits // 8)};")
                    left = bits
                    for i, f in run:
                        left -= f.width
                        if not f.width:
                            continue
                        shifted = f"v >> {left}" if left else "v"
                        mask = "" if left + f.width == bits else f" & {(1 << f.width) - 1:#x}ul"
                        lines.append(f"h->f{i} = ({c_type(f)})(({shifted}){mask});")
            else:
                for i, f in run:
                    if f.width:
                        lines.append(f"h->f{i} = ({c_type(f)})xf_get_bits({base}, {at}, {f.width});")
                    at += f.width
                run = []
                return
            at += bits
            run = []

        for i, f in enumerate(kind.fields):
            if f.varbit:
                flush()
                lines.append(f"memcpy(h->f{i}, {base} + {at // 8}, vbits / 8);")
                lines.append(f"h->f{i}n = vbits;")
                lines.append(f"q = {base} + {at // 8} + vbits / 8;")
                base, at = "q", 0
                continue
            if f.width > 64:
                flush()
                run = [(i, f)]
                flush()
                continue
            if sum(g.width for _, g in run) + f.width > 64:
                flush()
            run.append((i, f))
            if (at + sum(g.width for _, g in run)) % 8 == 0:
                flush()
        flush()
        body = "\n".join("    " + line for line in lines)
        return (
            f"static void unpack_T{kind.index}(struct T{kind.index} *h, const uint8_t *p, uint32_t vbits) {{\n"
            f"    uint64_t v;\n    const uint8_t *q;\n    (void)v; (void)q; (void)vbits; (void)p;\n{body}\n"
            f"    h->valid = 1;\n}}"
        )

    @staticmethod
    def _pack(kind: HeaderType) -> str:
        lines: list[str] = []
        pack = Packer(lines, "p")
        for i, f in enumerate(kind.fields):
            if f.varbit:
                pack.flush()
                lines.append(f"memcpy(p + {pack.at // 8}, h->f{i}, h->f{i}n / 8);")
                lines.append(f"p += {pack.at // 8} + h->f{i}n / 8;")
                pack = Packer(lines, "p")
            else:
                pack.put(f"h->f{i}", f.width)
        pack.flush()
        body = "\n".join("    " + line for line in lines)
        return (
            f"static void pack_T{kind.index}(const struct T{kind.index} *h, uint8_t *p) {{\n"
            f"    uint64_t v;\n    (void)v; (void)p; (void)h;\n{body}\n}}"
        )

    @staticmethod
    def _equal(kind: HeaderType) -> str:
        tests = ["a->valid == b->valid"]
        for i, f in enumerate(kind.fields):
            if f.varbit:
                tests.append(f"a->f{i}n == b->f{i}n && !memcmp(a->f{i}, b->f{i}, a->f{i}n / 8)")
            elif f.width > 64:
                tests.append(f"!memcmp(a->f{i}, b->f{i}, sizeof a->f{i})")
            elif f.width:
                tests.append(f"a->f{i} == b->f{i}")
        both = " && ".join(tests[1:]) or "1"
        return (
            f"static int equal_T{kind.index}(const struct T{kind.index} *a, const struct T{kind.index} *b) {{\n"
            f"    return {tests[0]} && (!a->valid || ({both}));\n}}"
        )


def _comment(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_.$[]-" else "?" for c in text)


def load(base: str, at: int, count: int) -> str:
    """A C expression: `count` (1..8) bytes at base + at, big-endian."""
    parts: list[str] = []
    left = count
    for size in (8, 4, 2, 1):
        while left >= size:
            left -= size
            text = f"xf_load{8 * size}({base} + {at})"
            parts.append(f"{text} << {8 * left}" if left else text)
            at += size
    return parts[0] if len(parts) == 1 and "<<" not in parts[0] else "(" + " | ".join(parts) + ")"


def store(base: str, at: int, count: int, value: str) -> list[str]:
    """Statements: the low `count` (1..8) bytes of a C variable to base + at, big-endian."""
    lines: list[str] = []
    left = count
    for size in (8, 4, 2, 1):
        while left >= size:
            left -= size
            lines.append(
                f"xf_store{8 * size}({base} + {at}, {value} >> {8 * left});"
                if left
                else f"xf_store{8 * size}({base} + {at}, {value});"
            )
            at += size
    return lines


class Packer:
    """Writes values of given widths one after the other, most significant bit first, to bytes at a C pointer.

    What ends at a byte boundary is written with whole stores, of 64 bits where that much has come together: who reads
    the bytes again soon in larger pieces would have to wait for smaller ones. The statements use a variable `v`.
    """

    def __init__(self, lines: list[str], base: str) -> None:
        self.lines = lines
        self.base = base
        self.at = 0
        """Bits written by `flush` so far."""
        self.run: list[tuple[str, int]] = []

    def put(self, value: str, width: int) -> None:
        """Add a value: an unsigned C expression within `width` bits, or a limb array when wider than 64."""
        if width > 64:
            self.flush()
            if self.at % 8 == 0 and width % 64 == 0:
                n = width // 64
                for k in range(n):
                    self.lines.append(
                        f"xf_store64({self.base} + {self.at // 8 + 8 * k}, {value}[{n - 1 - k}]);"
                    )
            else:
                self.lines.append(f"xf_w_put({value}, {self.base}, {self.at}, {width});")
            self.at += width
            return
        if self._bits() + width > 64:
            self._store_whole()
        if self._bits() + width > 64:
            self.flush()
        self.run.append((value, width))
        if self._bits() == 64 or (self.at % 8 and (self.at + self._bits()) % 8 == 0):
            self.flush()

    def _bits(self) -> int:
        return sum(width for _, width in self.run)

    def _store_whole(self) -> None:
        """Emit as much as ends at a byte boundary."""
        if self.at % 8:
            return
        bits = count = whole = 0
        for number, (_, width) in enumerate(self.run, 1):
            bits += width
            if bits % 8 == 0:
                count, whole = number, bits
        if not whole:
            return
        left, parts = whole, []
        for value, width in self.run[:count]:
            left -= width
            if width:
                parts.append(f"(uint64_t){value} << {left}" if left else f"(uint64_t){value}")
        self.lines.append(f"v = {' | '.join(parts)};")
        self.lines += store(self.base, self.at // 8, whole // 8, "v")
        self.at += whole
        self.run = self.run[count:]

    def flush(self) -> None:
        """Emit what was added."""
        self._store_whole()
        for value, width in self.run:
            if width:
                self.lines.append(f"xf_put_bits({self.base}, {self.at}, {width}, (uint64_t){value});")
            self.at += width
        self.run = []


def pointers(values: Sequence[int]) -> str:
    """A brace list of 64-bit constants (one zero when empty)."""
    return "{" + ", ".join(f"{v:#x}ul" for v in values or (0,)) + "}"
