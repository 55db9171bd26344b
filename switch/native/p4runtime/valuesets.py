"""Parser value sets over P4Runtime: all members of a set are written at once."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    P4RuntimeError,
)
from switch.native.p4runtime.info import Info, find, selected
from switch.native.p4runtime.matching import Key, key_of, matches_of
from switch.native.p4runtime.translation import Translation


class ValueSets:
    """The parser value sets of one pipeline."""

    def __init__(self, info: Info, engine: Engine, translation: Translation) -> None:
        self._info = info
        self._engine = engine
        self._translation = translation
        self._fields = {
            set_id: info.match_fields(message.match) for set_id, message in info.value_sets.items()
        }

    def write(self, update: int, entry: p4r.ValueSetEntry) -> None:
        """Replace the members of a set; raises P4RuntimeError, EngineError."""
        value_set = find("value set", self._info.value_sets, entry.value_set_id)
        name = value_set.preamble.name
        if update != p4r.Update.MODIFY:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: a value set can only be modified")
        if len(entry.members) > value_set.size:
            raise P4RuntimeError(
                RESOURCE_EXHAUSTED,
                f"{name} holds {value_set.size} members, {len(entry.members)} are given",
            )
        fields = self._fields[entry.value_set_id]
        keys: dict[Key, None] = {}
        for member in entry.members:
            key = key_of(fields, member.match, self._translation, name)
            if key in keys:
                raise P4RuntimeError(ALREADY_EXISTS, f"{name}: a member is given twice")
            keys[key] = None
        self._engine.value_set_set(name, list(keys))

    def read(self, query: p4r.ValueSetEntry) -> Iterator[p4r.ValueSetEntry]:
        """The set asked for, or all; raises P4RuntimeError."""
        for value_set in selected("value set", self._info.value_sets, query.value_set_id):
            set_id, name = value_set.preamble.id, value_set.preamble.name
            message = p4r.ValueSetEntry(value_set_id=set_id)
            for member in self._engine.value_set(name):
                key = tuple(tuple(element) for element in member)
                message.members.add().match.extend(matches_of(self._fields[set_id], key, self._translation))
            yield message

    def export(self) -> Iterator[p4r.ValueSetEntry]:
        """The sets that have members, to MODIFY elsewhere."""
        for message in self.read(p4r.ValueSetEntry()):
            if message.members:
                yield message
