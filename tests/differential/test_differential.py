"""A short run of the comparison with real BMv2, where it is installed; `make differential` is the long one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.differential.run import ROOT, one

HERE = Path(__file__).parent
BMV2 = shutil.which("simple_switch_grpc") or shutil.which("/opt/judges/bin/simple_switch_grpc")
SOURCES = [*sorted((HERE / "programs").glob("*.p4")), ROOT / "p4src" / "fabric.p4"]


@pytest.mark.judge
@pytest.mark.skipif(BMV2 is None, reason="simple_switch_grpc is not installed")
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_bmv2_sends_what_the_native_switch_sends(source: Path) -> None:
    assert BMV2 is not None
    result = one(source, None, BMV2, packets=150, seed=7)
    assert result.skipped is None
    assert result.differences == []
    assert result.packets == 150
