"""A BMv2 JSON program, read and checked: what the generator and the binding know about it."""

from __future__ import annotations

from dataclasses import dataclass


class ProgramError(Exception):
    """The BMv2 JSON (or the P4Info) is malformed; the text names the place."""


@dataclass
class Program:
    """A checked program."""

    @staticmethod
    def from_text(json_text: str, p4info_text: str | None = None) -> Program:
        """Read BMv2 JSON; the P4Info text names the annotated registers. Raises ProgramError."""
        raise NotImplementedError
