"""A switch process whose programs crash on purpose; it takes the arguments of `python -m switch.native`.

The generated code of every program gets a fault for each of `FAULTS`: a frame to that MAC address makes ingress do
what a wrong compiler, or a bug in the code generator, would have made it do.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from pathlib import Path

from switch.native import build
from switch.native.cgen import SYMBOL

FAULTS = {
    "SIGSEGV": (0x0200DEAD0001, "*(volatile int *)8 = 1;"),
    "SIGILL": (0x0200DEAD0002, '__asm__ volatile(".long 0x0b0f0b0f");'),
    "SIGFPE": (0x0200DEAD0003, "{ volatile int zero = 0; zero = 7 / zero; }"),
}
"""Signal -> destination MAC address and statement."""
if platform.machine() != "x86_64":
    del FAULTS[
        "SIGFPE"
    ]  # elsewhere a division by zero is no fault, and the bytes above may be another instruction
    del FAULTS["SIGILL"]


def with_faults(source: str) -> str:
    """A generated program whose ingress crashes on demand."""
    getter = f"const xf_program *{SYMBOL}(void) {{"
    assert source.count(getter) == 1
    tests = "".join(
        f"    if (x->length >= 6 && xf_get_bits(x->frame, 0, 48) == {mac}ul) {statement}\n"
        for mac, statement in FAULTS.values()
    )
    return (
        source.replace(getter, "static const xf_program *original(void) {")
        + f"""
static void ingress_with_faults(xf_ctx *x, void *phv) {{
{tests}    original()->ingress(x, phv);
}}
{getter}
    static xf_program changed;
    changed = *original();
    changed.ingress = ingress_with_faults;
    return &changed;
}}
"""
    )


def marked(json_text: str) -> str:
    """BMv2 JSON under another name, which keeps the code with faults apart from that without in the cache."""
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return json.dumps({**json.loads(json_text), "program": f"crashing {version}"})


def inject() -> None:
    """Programs that this process compiles from now on have the faults; it must run `marked` ones only."""
    generate = build.generate
    build.generate = lambda program, **options: with_faults(generate(program, **options))  # type: ignore[assignment]


if __name__ == "__main__":
    from switch.native.daemon import main

    inject()
    sys.exit(main())
