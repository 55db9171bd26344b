"""Calculations in C: the bytes that checksums and hashes are taken over, and the algorithms.

Inputs are concatenated bit by bit in order; fields of invalid headers are left out, the end is padded with zeros to a
whole byte (BMv2 `calculations.cpp`). Consecutive fields of one header are packed together, so that the usual case is a
few whole stores.
"""

from __future__ import annotations

from switch.native.cgen_actions import Intrinsics
from switch.native.cgen_expr import Body, Expressions
from switch.native.cgen_layout import Layout, Packer
from switch.native.document import Node
from switch.native.program import Checksum, Program, limbs, split

ALGORITHMS = {
    "csum16": "xf_csum16",
    "cksum16": "xf_csum16",
    "crc16": "xf_crc16",
    "crc16_custom": "xf_crc16",
    "crc32": "xf_crc32",
    "crc32_custom": "xf_crc32",
    "crcCCITT": "xf_crc_ccitt",
    "xor16": "xf_xor16",
    "identity": "xf_identity",
}


CUSTOM_CRCS = {"crc16_custom": 16, "crc32_custom": 32}


def custom_crc_widths(program: Program) -> dict[str, int]:
    """The width of each calculation's custom CRC by its name, 0 if it has none."""
    return {name: CUSTOM_CRCS.get(algo, 0) for name, (algo, _) in program.calculations.items()}


class _Group:
    """Consecutive inputs that are there or not together."""

    def __init__(self, valid: str) -> None:
        self.valid = valid
        self.items: list[tuple[str, int]] = []
        self.setup: list[str] = []
        self.varbit: str | None = None
        """The lvalue of a varbit that ends the group."""

    @property
    def bits(self) -> int:
        return sum(width for _, width in self.items)


class Calculations:
    """Writes one C function `calcN` for every calculation and checksum code."""

    def __init__(self, program: Program, layout: Layout, intrinsics: Intrinsics) -> None:
        self.program = program
        self.layout = layout
        self.intrinsics = intrinsics

    def functions(self) -> str:
        """All calculations."""
        parts = []
        for i, (algo, inputs) in enumerate(self.program.calculations.values()):
            parts.append(self.function(f"calc{i}", algo, inputs, custom=i))
        for profile in self.program.profiles.values():
            if profile.selector:
                parts.append(self.function(f"select{profile.index}", *profile.selector))
        return "\n\n".join(parts)

    def function(self, name: str, algo: str, inputs: Node, custom: int | None = None) -> str:
        """One function that returns the hash as uint64_t; `custom`: the calculation whose CRC may be set."""
        head = f"static uint64_t {name}(xf_ctx *x, struct phv *P) {{"
        if algo == "random":
            return f"{head}\n    (void)P;\n    return xf_random(x, 0, UINT64_MAX);\n}}"
        if algo not in ALGORITHMS:
            known = ", ".join(sorted([*ALGORITHMS, "random"]))
            raise inputs.fail(f"hash algorithm '{algo}' is not known; known are {known}")
        groups, payload = self.groups(inputs)
        size = sum(g.bits for g in groups) // 8 + 1
        for group in groups:
            if group.varbit:
                size += 2048
        aligned = all(g.bits % 8 == 0 for g in groups[:-1])
        lines = [
            f"uint8_t b[{size + 8}{' + XF_MAX_FRAME' if payload else ''}];",
            "uint32_t n = 0;",
            "uint64_t v;",
        ]
        lines.append("(void)x; (void)P; (void)v;")
        if aligned:
            for group in groups:
                lines += self.aligned_group(group)
        else:
            lines.append("memset(b, 0, sizeof b);")
            for group in groups:
                lines += self.bit_group(group)
            lines.append("n = (n + 7) / 8;")
        if payload:
            lines.append("memcpy(b + n, x->frame + x->parsed, x->length - x->parsed);")
            lines.append("n += x->length - x->parsed;")
        if custom is not None and algo in CUSTOM_CRCS:
            lines.append(f"return xf_crc_custom(x, {custom}, b, n);")
        else:
            lines.append(f"return {ALGORITHMS[algo]}(b, n);")
        return head + "\n" + "\n".join("    " + line for line in lines) + "\n}"

    def groups(self, inputs: Node) -> tuple[list[_Group], bool]:
        """Inputs by validity, and whether the payload follows."""
        groups: list[_Group] = []
        payload = False
        constants = 0

        def group_for(valid: str) -> _Group:
            if not groups or groups[-1].valid != valid or groups[-1].varbit:
                groups.append(_Group(valid))
            return groups[-1]

        for node in inputs.items():
            kind = node["type"].text()
            if kind == "field":
                header, chosen = self.program.field(node["value"])
                place = self.layout.place(header)
                lvalue = place.field(header.type.by_name[chosen.name])
                group = group_for(place.valid)
                if chosen.varbit:
                    group.varbit = lvalue
                else:
                    group.items.append((lvalue, chosen.width))
            elif kind == "hexstr":
                width = node["bitwidth"].integer(0, 4096)
                value = node["value"].hexstr() & ((1 << width) - 1)
                group = group_for("1")
                if width <= 64:
                    group.items.append((f"{value:#x}ul", width))
                else:
                    name = f"k{constants}"
                    constants += 1
                    words = ", ".join(f"{w:#x}ul" for w in split(value, limbs(width)))
                    group.setup.append(f"static const uint64_t {name}[] = {{{words}}};")
                    group.items.append((name, width))
            elif kind == "header":
                header = self.program.headers.get(node["value"].text())  # type: ignore[assignment]
                if header is None:
                    raise node["value"].fail(f"there is no header '{node['value'].value}'")
                place = self.layout.place(header)
                for i, f in enumerate(header.type.fields):
                    group = group_for(place.valid)
                    if f.varbit:
                        group.varbit = place.field(i)
                    else:
                        group.items.append((place.field(i), f.width))
            elif kind == "payload":
                payload = True
            else:
                raise node["type"].fail(f"'{kind}' cannot be an input of a calculation")
        return groups, payload

    @staticmethod
    def aligned_group(group: _Group) -> list[str]:
        """Whole bytes at b + n."""
        inner: list[str] = list(group.setup)
        if group.bits % 8:  # first of all: a wide field at the end is put while the bits are packed
            inner.append(f"b[n + {group.bits // 8}] = 0;")
        pack = Packer(inner, "(b + n)")
        for value, width in group.items:
            pack.put(value, width)
        pack.flush()
        inner.append(f"n += {(group.bits + 7) // 8};")
        if group.varbit:
            inner += [f"memcpy(b + n, {group.varbit}, {group.varbit}n / 8);", f"n += {group.varbit}n / 8;"]
        return inner if group.valid == "1" and not group.setup else [f"if ({group.valid}) {{", *inner, "}"]

    @staticmethod
    def bit_group(group: _Group) -> list[str]:
        """Bits at bit n of b."""
        inner: list[str] = list(group.setup)
        for value, width in group.items:
            if width > 64:
                inner.append(f"xf_w_put({value}, b, n, {width});")
            elif width:
                inner.append(f"xf_put_bits(b, n, {width}, (uint64_t){value});")
            inner.append(f"n += {width};")
        if group.varbit:
            inner.append(
                f"for (v = 0; v < {group.varbit}n / 8; v++, n += 8) xf_put_bits(b, n, 8, {group.varbit}[v]);"
            )
        return [f"if ({group.valid}) {{", *inner, "}"]

    def checksum(self, checksum: Checksum, verify: bool) -> list[str]:
        """Statements that verify it (setting x->checksum_error) or update it."""
        header, chosen = self.program.field(checksum.target)
        if chosen.width > 64 or chosen.varbit:
            raise checksum.target.fail("a checksum field is at most 64 bits wide")
        place = self.layout.place(header)
        lvalue = place.field(header.type.by_name[chosen.name])
        number = list(self.program.calculations).index(checksum.calculation)
        body = Body()
        conditions = [place.valid] if verify and not place.metadata else []
        if not checksum.condition.missing:
            reader = Expressions(self.program, self.layout)
            conditions.append(reader.boolean(checksum.condition, body))
        mask = (1 << chosen.width) - 1
        value = f"(calc{number}(x, P) & {mask:#x}ul)"
        if verify:
            action = f"if ((uint64_t){lvalue} != {value}) x->checksum_error = 1;"
        else:
            action = f"{lvalue} = {value};"
        guard = f"if ({' && '.join(conditions)}) " if conditions else ""
        return ["{", *body.lines, f"{guard}{{ {action} }}", "}"]
