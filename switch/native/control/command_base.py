"""What the commands of every subject stand on: the switch, its program, names that may be shortened."""

from __future__ import annotations

from collections.abc import Mapping

from switch.native.control.controlled import Controlled
from switch.native.control.literals import LiteralError
from switch.native.program import Program, Table

Lines = list[str]


class CommandBase:
    """Commands are methods `do_NAME`: words in, lines to print out; the first line of the docstring is the usage."""

    def __init__(self, switch: Controlled) -> None:
        self._switch = switch
        self._engine = switch.engine

    @property
    def _program(self) -> Program:
        return self._engine.program

    def _table(self, name: str) -> Table:
        return self._program.tables[named(self._program.tables, name, "table")]


def named(entities: Mapping[str, object], name: str, what: str) -> str:
    """The full name; a suffix is enough when only one entity has it."""
    if name in entities:
        return name
    matching = [known for known in entities if known.endswith(f".{name}")]
    if len(matching) > 1:
        raise LiteralError(f"{name} may be {', '.join(matching)}")
    if not matching:
        known = ", ".join(known for known in entities if not known.startswith("tbl_")) or "none"
        raise LiteralError(f"there is no {what} {name}; there are {known}")
    return matching[0]
