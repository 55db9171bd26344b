"""Preprocessed text and the way back from an offset in it to the file, line and column that a person wrote."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.errors import Diagnostic

LINE_MARKER = re.compile(
    r'^[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?[^\n]*$', re.MULTILINE
)
"""What a preprocessor leaves: `# 12 "file.p4"` or `#line 12 "file.p4"`: the next line is line 12 of file.p4."""


class Location(NamedTuple):
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass
class Source:
    """The preprocessed text of a program."""

    path: str
    text: str
    _starts: list[int] = field(default_factory=list, init=False, repr=False)
    """Offset of each line of `text`."""
    _markers: list[tuple[int, str, int]] = field(default_factory=list, init=False, repr=False)
    """(index of the line after the marker, file, its line number there), ascending."""

    def __post_init__(self) -> None:
        starts = [0]
        starts.extend(m.end() for m in re.finditer("\n", self.text))
        self._starts = starts
        self._markers = [(0, self.path, 1)]
        for marker in LINE_MARKER.finditer(self.text):
            index = bisect_right(starts, marker.start())
            name = marker.group(2)
            file = re.sub(r"\\(.)", r"\1", name) if name is not None else self._markers[-1][1]
            self._markers.append((index, file, int(marker.group(1))))

    def locate(self, pos: int) -> Location:
        """The place that offset `pos` came from."""
        index = max(0, bisect_right(self._starts, pos) - 1)
        start, file, line = self._markers[self._marker_of(index)]
        return Location(file, line + index - start, pos - self._starts[index] + 1)

    def line_text(self, pos: int) -> str:
        """The whole preprocessed line that holds `pos`."""
        index = max(0, bisect_right(self._starts, pos) - 1)
        end = self.text.find("\n", self._starts[index])
        return self.text[self._starts[index] : end if end >= 0 else len(self.text)].rstrip("\r")

    def fragment(self, pos: int, limit: int = 80) -> str:
        """What begins at `pos`, up to the end of its statement or line: for the source notes in BMv2 JSON."""
        text = self.line_text(pos)[self.locate(pos).column - 1 :].strip()
        return re.split(r"[;{]", text, maxsplit=1)[0].strip()[:limit]

    def diagnostic(self, pos: int, message: str, severity: str = "error") -> Diagnostic:
        """A message about what is at `pos`."""
        place = self.locate(pos)
        return Diagnostic(place.file, place.line, place.column, message, severity, self.line_text(pos))

    def _marker_of(self, line_index: int) -> int:
        return max(0, bisect_right(self._markers, line_index, key=lambda m: m[0]) - 1)
