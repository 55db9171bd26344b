"""A run's folder: where everything goes, and the facts that are written when it begins and ends."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xoff.errors import XoffError
from xoff.experiment import Experiment


@dataclass
class RunFolder:
    """An open run folder."""

    path: Path
    facts: dict[str, Any] = field(default_factory=dict)
    """`run.json`: rewritten by `save`."""

    @staticmethod
    def create(out: Path, experiment: Experiment) -> RunFolder:
        """Make `out/<time>-<name>`, a number added when it exists, and write the experiment into it."""
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in experiment.name) or "run"
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
        for suffix in ("", *(f".{n}" for n in range(1, 1000))):
            path = out / (stem + suffix)
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                continue
            except OSError as error:
                raise XoffError(
                    f"{path}: cannot make the run's folder ({error.strerror}); --out names another place."
                ) from None
        else:
            raise XoffError(f"{out}: a thousand runs called {stem} exist already.")
        folder = RunFolder(path, {"finished": False, "wall_seconds": {}, "python": platform.python_version()})
        try:
            (path / "experiment.yaml").write_text(experiment.to_yaml())
            (path / "records").mkdir()
            folder.save()
        except OSError as error:
            raise XoffError(f"{path}: cannot fill the run's folder ({error.strerror}).") from None
        return folder

    def save(self) -> None:
        """Write `run.json`."""
        (self.path / "run.json").write_text(json.dumps(self.facts, indent=1) + "\n")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note the wall seconds that a phase took, also when it fails."""
        begun = time.monotonic()
        try:
            yield
        finally:
            seconds = self.facts["wall_seconds"].get(name, 0.0) + time.monotonic() - begun
            self.facts["wall_seconds"][name] = round(seconds, 3)
            self.save()
