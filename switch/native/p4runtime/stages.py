"""Where packets meet what a Write changes: on their way through ingress, through egress, or both.

A batch is applied between two passes of packets through a pipeline. A packet that waits in a queue meanwhile has
gone through ingress before the batch and goes through egress after it. So a batch is atomic for every packet when all
it changes is met in one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from finsy.proto import p4r

from switch.native.p4runtime.errors import UNIMPLEMENTED, P4RuntimeError
from switch.native.p4runtime.info import Info
from switch.native.program import ActionCall, Program, Table

INGRESS, EGRESS = "ingress", "egress"
_ARRAYS = ("counter_array", "register_array", "meter_array")
_CLONES = {"clone_ingress_pkt_to_egress": INGRESS, "clone_egress_pkt_to_egress": EGRESS}


class Stages:
    """The stages of one program's objects."""

    def __init__(self, info: Info, program: Program) -> None:
        self._info = info
        self._tables = {name: {table.pipeline} for name, table in program.tables.items()}
        self._profiles = {
            name: {table.pipeline for table in profile.tables} for name, profile in program.profiles.items()
        }
        self._arrays: dict[str, set[str]] = {}
        self._clones: set[str] = set()
        for stage, pipeline in program.pipelines.items():
            for node in pipeline.nodes.values():
                actions = node.actions if isinstance(node, Table) else []
                if isinstance(node, ActionCall):
                    actions = [node.action]
                for action in actions:
                    self._note(stage, action.primitives.value)

    def check(self, updates: Sequence[p4r.Update]) -> None:
        """Raises P4RuntimeError(UNIMPLEMENTED) when packets may see a part of the batch."""
        met: set[str] = set()
        for update in updates:
            met |= self._of(update.entity)
        if len(updates) > 1 and len(met) > 1:
            raise P4RuntimeError(
                UNIMPLEMENTED,
                "the batch changes what packets meet in ingress and what they meet in egress: a packet in a queue"
                " would see the old and the new; send a batch for each",
            )

    def _note(self, stage: str, primitives: Any) -> None:
        for item in _objects(primitives):
            if item.get("type") in _ARRAYS:
                self._arrays.setdefault(str(item.get("value")), set()).add(stage)
            stage_of_clone = _CLONES.get(str(item.get("op")))
            if stage_of_clone is not None:
                self._clones.add(stage_of_clone)

    def _of(self, entity: p4r.Entity) -> set[str]:
        kind = entity.WhichOneof("entity")
        if kind == "table_entry":
            return self._of_table(entity.table_entry.table_id)
        if kind == "direct_counter_entry":
            return self._of_table(entity.direct_counter_entry.table_entry.table_id)
        if kind == "direct_meter_entry":
            return self._of_table(entity.direct_meter_entry.table_entry.table_id)
        if kind in ("action_profile_member", "action_profile_group"):
            profile = self._info.profiles.get(getattr(entity, kind).action_profile_id)
            return set() if profile is None else self._profiles.get(profile.preamble.name, set())
        if kind == "counter_entry":
            return self._of_array(self._info.counters, entity.counter_entry.counter_id)
        if kind == "meter_entry":
            return self._of_array(self._info.meters, entity.meter_entry.meter_id)
        if kind == "register_entry":
            return self._of_array(self._info.registers, entity.register_entry.register_id)
        if kind == "value_set_entry":
            return {INGRESS}
        if kind == "packet_replication_engine_entry":
            replication = entity.packet_replication_engine_entry
            return self._clones if replication.HasField("clone_session_entry") else {INGRESS}
        return set()

    def _of_table(self, table_id: int) -> set[str]:
        table = self._info.tables.get(table_id)
        return set() if table is None else self._tables[table.name]

    def _of_array(self, arrays: Any, array_id: int) -> set[str]:
        array = arrays.get(array_id)
        return set() if array is None else self._arrays.get(array.preamble.name, set())


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object inside a value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _objects(item)
