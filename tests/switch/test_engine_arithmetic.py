"""Arithmetic of every width against Python's integers, by the P4-16 specification (sections 8.5 to 8.9).

For each width a program is generated that computes every operator on two fields of the frame.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from switch.native.binding import Engine
from switch.native.program import Program

ROOT = Path(__file__).parents[2]

# name: (P4 text on x, y (bit<W>), n (bit<8>), result width, what it is in Python on w, x, y, n)
Meaning = Callable[[int, int, int, int], int]


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


OPERATORS: dict[str, tuple[str, Meaning]] = {
    "add": ("x + y", lambda w, x, y, n: x + y),
    "sub": ("x - y", lambda w, x, y, n: x - y),
    "mul": ("x * y", lambda w, x, y, n: x * y),
    "and": ("x & y", lambda w, x, y, n: x & y),
    "or": ("x | y", lambda w, x, y, n: x | y),
    "xor": ("x ^ y", lambda w, x, y, n: x ^ y),
    "not": ("~x", lambda w, x, y, n: ~x),
    "neg": ("-x", lambda w, x, y, n: -x),
    "shl": ("x << n", lambda w, x, y, n: x << n),
    "shr": ("x >> n", lambda w, x, y, n: x >> n),
    "sat_add": ("x |+| y", lambda w, x, y, n: min(x + y, (1 << w) - 1)),
    "sat_sub": ("x |-| y", lambda w, x, y, n: max(x - y, 0)),
    "choose": ("(x < y) ? x : y", lambda w, x, y, n: min(x, y)),
    "mixed": ("((x + y) * x - y) ^ (y << 3)", lambda w, x, y, n: ((x + y) * x - y) ^ (y << 3)),
    "parts": ("(x + y) >> 1", lambda w, x, y, n: ((x + y) % (1 << w)) >> 1),
}
SIGNED: dict[str, tuple[str, Meaning]] = {
    "s_add": ("sx + sy", lambda w, x, y, n: x + y),
    "s_sub": ("sx - sy", lambda w, x, y, n: x - y),
    "s_mul": ("sx * sy", lambda w, x, y, n: x * y),
    "s_neg": ("-sx", lambda w, x, y, n: -x),
    "s_shl": ("sx << n", lambda w, x, y, n: x << n),
    "s_shr": ("sx >> n", lambda w, x, y, n: x >> n),
    "s_sat_add": ("sx |+| sy", lambda w, x, y, n: clamp(x + y, -(1 << (w - 1)), (1 << (w - 1)) - 1)),
    "s_sat_sub": ("sx |-| sy", lambda w, x, y, n: clamp(x - y, -(1 << (w - 1)), (1 << (w - 1)) - 1)),
    "s_min": ("(sx < sy) ? sx : sy", lambda w, x, y, n: min(x, y)),
}
COMPARISONS = {
    "lt": ("x < y", "sx < sy"),
    "le": ("x <= y", "sx <= sy"),
    "eq": ("x == y", "sx == sy"),
    "ne": ("x != y", "sx != sy"),
    "gt": ("x > y", "sx > sy"),
    "ge": ("x >= y", "sx >= sy"),
}


def source(width: int) -> str:
    """The P4 program for a width."""
    padded = width + -width % 8
    pad = padded - width
    pads = iter(range(1000))

    def field(name: str) -> str:
        filler = f"bit<{pad}> pad{next(pads)}; " if pad else ""
        return f"    {filler}bit<{width}> {name};\n"

    names = ["x", "y", *OPERATORS, *SIGNED]
    fields = (
        "".join(field(name) for name in names) + "    bit<8> n;\n    bit<16> compared;\n    bit<8> wider;\n"
    )
    lines = [f"        h.v.{name} = {text};" for name, (text, _) in OPERATORS.items()]
    lines += [f"        h.v.{name} = (bit<{width}>)({text});" for name, (text, _) in SIGNED.items()]
    bits = []
    for i, (plain, with_sign) in enumerate(COMPARISONS.values()):
        bits.append(f"        if ({plain}) {{ h.v.compared = h.v.compared | {1 << i}; }}")
        bits.append(f"        if ({with_sign}) {{ h.v.compared = h.v.compared | {1 << (i + 8)}; }}")
    return f"""#include <core.p4>
#include <v1model.p4>
header v_t {{
{fields}}}
struct headers_t {{ v_t v; }}
struct meta_t {{ }}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {{
    state start {{ p.extract(h.v); transition accept; }}
}}
control V(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {{
    apply {{
        bit<{width}> x = h.v.x;
        bit<{width}> y = h.v.y;
        bit<8> n = h.v.n;
        int<{width}> sx = (int<{width}>)x;
        int<{width}> sy = (int<{width}>)y;
        h.v.compared = 0;
{chr(10).join(lines)}
{chr(10).join(bits)}
        sm.egress_spec = 1;
    }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h.v); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def interesting(rng: random.Random, width: int) -> int:
    full = (1 << width) - 1
    return rng.choice(
        [0, 1, full, full - 1, full >> 1, (full >> 1) + 1, rng.getrandbits(width), rng.getrandbits(width)]
    )


@pytest.mark.parametrize("width", [7, 8, 32, 48, 63, 64, 65, 128, 200])
def test_operators_are_exact(width: int, tmp_path: Path) -> None:
    program = tmp_path / "arithmetic.p4"
    program.write_text(source(width))
    subprocess.run(
        [sys.executable, "-m", "compiler", str(program), "-o", str(tmp_path)], check=True, cwd=ROOT
    )
    padded = width + -width % 8
    names = ["x", "y", *OPERATORS, *SIGNED]
    size = padded // 8
    rng = random.Random(width)
    with Engine(Program.from_text((tmp_path / "arithmetic.json").read_text())) as e:
        e.add_port(1)
        for _ in range(60):
            x, y = interesting(rng, width), interesting(rng, width)
            n = rng.choice([0, 1, width - 1, width, 63, 64, 65, 255, rng.randrange(256)])
            head = x.to_bytes(size, "big") + y.to_bytes(size, "big") + bytes(size * (len(names) - 2))
            e.rx(1, head + bytes([n]) + bytes(3), 0)
            ((_, out),) = e.poll(0)
            got = {
                name: int.from_bytes(out[i * size : (i + 1) * size], "big") for i, name in enumerate(names)
            }
            full = (1 << width) - 1
            for name, (_, meaning) in OPERATORS.items():
                assert got[name] == meaning(width, x, y, n) & full, (name, x, y, n)
            sx, sy = signed(x, width), signed(y, width)
            for name, (_, meaning) in SIGNED.items():
                assert got[name] == meaning(width, sx, sy, n) & full, (name, sx, sy, n)
            compared = int.from_bytes(out[-3:-1], "big")
            for i, (a, b) in enumerate([(x, y), (sx, sy)]):
                for k, true in enumerate([a < b, a <= b, a == b, a != b, a > b, a >= b]):
                    assert bool(compared >> (k + 8 * i) & 1) == true, (list(COMPARISONS)[k], a, b)
