"""Random programs through p4c and through Xoff's compiler: packets must not be able to tell which one it was."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.compiler.mini_bmv2 import Switch
from tests.compiler.random_programs import SIZE, Generator
from tests.compiler.walk import compile_text

P4C = shutil.which("p4c-bm2-ss") or shutil.which("/opt/judges/bin/p4c-bm2-ss")


@pytest.mark.judge
@pytest.mark.skipif(P4C is None, reason="p4c-bm2-ss is not on this machine")
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_do_what_p4c_makes_of_them(seed: int, tmp_path: Path) -> None:
    text = Generator(seed).program()
    path = tmp_path / "random.p4"
    path.write_text(text)
    out = tmp_path / "p4c.json"
    done = subprocess.run([str(P4C), "-o", str(out), str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"p4c refuses this one: {done.stderr[-200:]}")
    theirs, ours = json.loads(out.read_text()), compile_text(text)
    random = Random(seed)
    for _ in range(20):
        packet = bytes(random.choice([0, 1, 2, 5, 255, random.randrange(256)]) for _ in range(SIZE + 4))
        assert Switch(ours).run(packet) == Switch(theirs).run(packet), packet.hex()
