"""Numbers and short names of P4Info objects: id = resource type << 24 | hash of the control-plane name (P4Runtime
specification, "ID allocation"; the hash and the probing are those of the reference compiler, so that ids agree)."""

from __future__ import annotations

from compiler import tree
from compiler.errors import CompileError, Diagnostic
from compiler.source import Source

PREFIXES = {
    "action": 0x01,
    "table": 0x02,
    "value_set": 0x03,
    "controller_header": 0x04,
    "action_profile": 0x11,
    "counter": 0x12,
    "direct_counter": 0x13,
    "meter": 0x14,
    "direct_meter": 0x15,
    "register": 0x16,
    "digest": 0x17,
}
"""P4Ids.Prefix of p4info.proto."""


def jenkins_one_at_a_time(data: bytes) -> int:
    """Bob Jenkins's one-at-a-time hash, 32 bits."""
    value = 0
    for byte in data:
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


def id_annotation(decl: tree.Decl | tree.KeyElement, source: Source) -> int | None:
    """The number in `@id(…)`, or None."""
    for annotation in decl.annotations:
        if annotation.name == "id":
            return annotation_number(annotation, source)
    return None


def annotation_number(annotation: tree.Annotation, source: Source) -> int:
    """The number that is an annotation's only argument; CompileError if it is none."""
    text = "".join(annotation.tokens)
    digits = text.replace("_", "")
    for mark in "ws":
        width, found, rest = digits.partition(mark)
        if found and width.isdigit():
            digits = rest
    try:
        return int(digits, 0) if not digits.isdigit() else int(digits)
    except ValueError:
        message = f"@{annotation.name} needs a number, not ({text})"
        raise CompileError.at(source, annotation.pos, message) from None


class SymbolTable:
    """Names of all P4Info objects. First `add` them all, then `assign`, then ask."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.ids: dict[str, dict[str, int]] = {kind: {} for kind in PREFIXES}
        self.used: set[int] = set()
        self.decls: dict[tuple[str, str], tree.Decl] = {}
        self.names: set[str] = set()
        self.suffixes: dict[tuple[str, ...], int] = {}
        """How many names end in these components."""
        self.problems: list[Diagnostic] = []

    def add(self, kind: str, name: str, decl: tree.Decl | None = None) -> None:
        """Adds a name; its `@id`, if any, is respected. Adding it again for the same declaration changes nothing; for
        another one it is an error."""
        known = self.ids[kind]
        if name in known:
            first = self.decls.get((kind, name))
            if decl is not None and first is not None and first is not decl:
                place = self.source.locate(first.pos)
                message = (
                    f"two {kind.replace('_', ' ')}s have the control-plane name '{name}'; the other is at "
                )
                self.complain(decl.pos, f"{message}{place.file}:{place.line}; give one of them another @name")
            return
        if decl is not None:
            self.decls[(kind, name)] = decl
        wanted = None if decl is None else id_annotation(decl, self.source)
        known[name] = 0
        if wanted is not None and decl is not None:
            known[name] = self._reserve(kind, wanted, decl)
        if name not in self.names:
            self.names.add(name)
            parts = name.split(".")
            for start in range(len(parts)):
                suffix = tuple(parts[start:])
                self.suffixes[suffix] = self.suffixes.get(suffix, 0) + 1

    def _reserve(self, kind: str, wanted: int, decl: tree.Decl) -> int:
        prefix = PREFIXES[kind] << 24
        if wanted >> 32 or (wanted & 0xFF000000 and wanted & 0xFF000000 != prefix):
            what = kind.replace("_", " ")
            self.complain(
                decl.pos, f"@id({wanted:#x}) does not fit: ids of a {what} begin with {PREFIXES[kind]:#04x}"
            )
            return 0
        number = wanted | prefix
        if number in self.used:
            self.complain(decl.pos, f"@id({wanted:#x}) is used twice")
        self.used.add(number)
        return number

    def complain(self, pos: int, message: str) -> None:
        """Keeps an error for the end of the collection."""
        problem = self.source.diagnostic(pos, message)
        if problem not in self.problems:
            self.problems.append(problem)

    def assign(self) -> None:
        """Gives an id to every name without one. Raises CompileError when the names collected do not fit together."""
        if self.problems:
            raise CompileError(self.problems)
        for kind in sorted(self.ids, key=lambda k: PREFIXES[k]):
            known = self.ids[kind]
            for name in sorted((n for n, i in known.items() if i == 0), key=str.encode):
                number = jenkins_one_at_a_time(name.encode()) & 0xFFFFFF
                while (PREFIXES[kind] << 24 | number) in self.used:
                    number = (number + 1) & 0xFFFFFF
                known[name] = PREFIXES[kind] << 24 | number
                self.used.add(known[name])

    def id(self, kind: str, name: str) -> int:
        """The id of a name that was added."""
        return self.ids[kind][name]

    def alias(self, name: str) -> str:
        """The shortest suffix of dot-separated parts that no other name ends in."""
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            suffix = tuple(parts[-count:])
            if self.suffixes.get(suffix, 0) < 2:
                return ".".join(suffix)
        return name
