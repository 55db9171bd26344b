"""The search over a reader in Python: `python -m tests.fuzz.search TARGET [libFuzzer's arguments]`, with atheris."""

from __future__ import annotations

import sys

import atheris

NAMES = ("compiler", "switch", "topologies", "traffic", "xoff")

with atheris.instrument_imports(include=[f"{name}." for name in NAMES], enable_loader_override=False):
    from tests.fuzz.python_targets import TARGETS


def main() -> None:
    """Search until libFuzzer's arguments say that it is enough."""
    target = TARGETS[sys.argv[1]]
    # libFuzzer starts itself again, through a shell, to merge inputs.
    again = f"{sys.executable} -m tests.fuzz.search {sys.argv[1]}"
    atheris.Setup([again, *sys.argv[2:]], target.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
