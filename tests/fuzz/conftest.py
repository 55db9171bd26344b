"""The harnesses in C, built once per test session."""

from __future__ import annotations

import pytest

from tests.fuzz.build import Builder, gcc


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Builds with gcc's AddressSanitizer, UndefinedBehaviorSanitizer and LeakSanitizer."""
    toolchain = gcc()
    if toolchain is None:
        pytest.skip("gcc with the sanitizers is not installed")
    return Builder(toolchain, tmp_path_factory.mktemp("fuzz"))
