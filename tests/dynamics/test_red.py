"""ECN marking against RED's curve, on the real program: one switch, its queue held at a length."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from compiler.cache import cache_folder
from compiler.driver import compile_cached
from tests.fabric.native import Built, NativeSwitch
from tests.fabric.plans import LOSSY, star
from tests.fabric.traffic import data, ecn_of
from xoff.prepare import FABRIC_P4

KMIN, KMAX, PMAX = 40_000, 160_000, 0.2
SIZE = 976
"""With 24 bytes more on the wire, at 8 Gb/s a frame every 1000 ns."""
PERIOD = SIZE + 24
FRAMES = 3_000


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Built:
    compiled = compile_cached(FABRIC_P4, cache_folder() / "programs")
    folder = tmp_path_factory.mktemp("fabric")
    (folder / "fabric.p4info.txtpb").write_text(compiled.p4info)
    (folder / "fabric.json").write_text(json.dumps(compiled.json))
    return Built(folder / "fabric.json", folder / "fabric.p4info.txtpb")


def marked_share(fabric: Built, queued: int) -> tuple[float, int]:
    """(share of frames marked, bytes left in the queue at every departure)."""
    policy = replace(LOSSY, queue_limit_bytes=10**6, ecn_kmin_bytes=KMIN, ecn_kmax_bytes=KMAX, ecn_pmax=PMAX)
    switch = NativeSwitch(fabric, star(2, rate_bps=8 * 10**9, classes={3: policy}), seed=queued)
    frame = data(1, 2, size=SIZE)
    for _ in range(queued // SIZE + 1):
        switch.send(1, frame)
    left = queued // SIZE * SIZE
    marks = 0
    for number in range(FRAMES):
        switch.send(1, frame, at=(number + 1) * PERIOD - 1)  # just before the next departure
        for out in switch.take(2):
            marks += ecn_of(out.frame) == 3 and number > 1  # the first frame left when it came
    assert switch.queued(2, 3) == left + SIZE
    switch.close()
    return marks / (FRAMES - 2), left


@pytest.mark.parametrize("queued", [20_000, 39_040, 60_000, 100_000, 140_000, 158_000, 170_000])
def test_packets_are_marked_with_the_probability_of_the_curve(fabric: Built, queued: int) -> None:
    share, left = marked_share(fabric, queued)
    if left <= KMIN:
        probability = 0.0
    elif left > KMAX:
        probability = 1.0
    else:
        probability = PMAX * (left - KMIN) / (KMAX - KMIN)
    deviation = math.sqrt(probability * (1 - probability) / FRAMES)
    assert abs(share - probability) <= 4 * deviation
