"""fabric.p4 compiled once per test session, and switches that are closed after their test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fabric.native import Built, NativeSwitch
from topologies.plan import FabricPlan

SOURCE = Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """fabric.p4 by our compiler."""
    folder = tmp_path_factory.mktemp("fabric")
    subprocess.run(
        [sys.executable, "-m", "compiler", str(SOURCE), "-o", str(folder)],
        check=True,
        cwd=SOURCE.parents[1],
    )
    return Built(folder / "fabric.json", folder / "fabric.p4info.txtpb")


@pytest.fixture
def switch(built: Built) -> Iterator[Callable[..., NativeSwitch]]:
    """Makes native switches: `switch(plan, timer_hz=…)`."""
    made: list[NativeSwitch] = []

    def make(plan: FabricPlan, **options: Any) -> NativeSwitch:
        made.append(NativeSwitch(built, plan, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
