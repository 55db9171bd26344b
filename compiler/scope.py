"""Names and what they mean: nested scopes, overloads, and suggestions for a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler import tree

OVERLOADABLE = (
    (tree.FunctionDecl, tree.ExternFunction),
    (tree.ControlDecl, tree.ParserDecl, tree.PackageDecl),
)
"""Families of declarations that may share a name, told apart by their (constructor) parameters."""


class Scope:
    """The names of one scope and the scopes around it."""

    __slots__ = ("names", "outer")

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, list[tree.Decl]] = {}

    def declare(self, decl: tree.Decl) -> tree.Decl | None:
        """Adds `decl`; returns the earlier declaration that it clashes with, if any (then it replaces nothing)."""
        known = self.names.get(decl.name)
        if known is None:
            self.names[decl.name] = [decl]
            return None
        for family in OVERLOADABLE:
            same = isinstance(decl, family) and all(isinstance(k, family) for k in known)
            if same and not any(_same_parameters(decl, k) for k in known):
                known.append(decl)
                return None
        return known[0]

    def lookup(self, name: str) -> list[tree.Decl]:
        """What `name` means here: the innermost scope's declarations of it (several when overloaded), or []."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return []

    @property
    def outermost(self) -> Scope:
        """The top level."""
        scope = self
        while scope.outer is not None:
            scope = scope.outer
        return scope

    def all_names(self) -> Iterator[str]:
        """Every visible name."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.outer


def _same_parameters(left: tree.Decl, right: tree.Decl) -> bool:
    """Whether calls could not tell the two apart: (constructor) parameters of the same names and types."""
    mine, others = _parameters(left), _parameters(right)
    if len(getattr(left, "type_params", ())) != len(getattr(right, "type_params", ())):
        return False
    return [(p.name, str(p.type)) for p in mine] == [(p.name, str(p.type)) for p in others]


def _parameters(decl: tree.Decl) -> list[tree.Param]:
    found = getattr(decl, "constructor_params", None)
    return list(getattr(decl, "params", ()) if found is None else found)


LIBRARY = {
    "core.p4": ["packet_in", "packet_out", "NoAction", "verify"],
    "v1model.p4": (
        "V1Switch standard_metadata_t mark_to_drop counter meter register direct_counter direct_meter action_profile "
        "action_selector hash random digest clone resubmit recirculate update_checksum verify_checksum HashAlgorithm "
        "CounterType MeterType CloneType truncate log_msg PortId_t"
    ).split(),
}
"""What the two system files declare, for a hint when an include is missing."""


def missing_include(name: str) -> str:
    """A hint when `name` comes from a system file that was not included."""
    for file, names in LIBRARY.items():
        if name in names:
            return f" (it comes with #include <{file}>)"
    return ""


def did_you_mean(name: str, candidates: Iterator[str] | list[str] | tuple[str, ...]) -> str:
    """`; did you mean 'x'?` when a candidate is close to `name`, else nothing."""
    options = list(dict.fromkeys(candidates))[:5000]
    lowered = {o.lower(): o for o in reversed(options)}
    close = difflib.get_close_matches(name.lower(), lowered, 1, 0.65)
    return f"; did you mean '{lowered[close[0]]}'?" if close else ""
