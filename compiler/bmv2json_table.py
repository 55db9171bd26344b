"""Tables in BMv2 JSON: keys, actions, default entry, constant entries, and where each action leads."""

from __future__ import annotations

from collections.abc import Callable

from compiler import ir
from compiler.bmv2json_expr import Json, hexstr
from compiler.control_flow import TableNode


class TableWriter:
    """Writes the tables of a program; ids run through all pipelines."""

    def __init__(self, action_ids: dict[ir.Action, int], noted: Callable[[Json, int], Json]) -> None:
        self.action_ids = action_ids
        self.noted = noted
        self.count = 0

    def write(self, node: TableNode) -> Json:
        """The table of a graph node."""
        table = node.table
        item: Json = {
            "name": table.name,
            "id": self.count,
            "key": [self._key(key) for key in table.keys if key.match != "selector"],
            "match_type": self._match_type(table),
            "type": "simple" if table.profile is None else ("indirect_ws" if table.selector else "indirect"),
        }
        self.count += 1
        if table.profile is not None:
            item["action_profile"] = table.profile
        item["max_size"] = table.size
        item["with_counters"] = table.counters
        item["support_timeout"] = table.support_timeout
        item["direct_meters"] = table.meter
        item["action_ids"] = [self.action_ids[action] for action in table.actions]
        item["actions"] = [action.name for action in table.actions]
        item["base_default_next"] = node.base
        item["next_tables"] = node.after
        if table.default is not None and table.profile is None:
            item["default_entry"] = {
                "action_id": self.action_ids[table.default],
                "action_const": table.default_const,
                "action_data": [hexstr(value) for value in table.default_args],
                "action_entry_const": table.default_const,
            }
        if table.entries is not None:
            item["entries"] = [self._entry(entry, table) for entry in table.entries]
        return self.noted(item, table.pos)

    @staticmethod
    def _key(key: ir.Key) -> Json:
        match = "ternary" if key.match == "optional" else key.match
        mask = None if key.mask is None else hexstr(key.mask, key.field.type.width)
        return {
            "match_type": match,
            "name": key.name,
            "target": [key.field.header, key.field.field],
            "mask": mask,
        }

    @staticmethod
    def _match_type(table: ir.Table) -> str:
        kinds = {key.match for key in table.keys}
        if "range" in kinds:
            return "range"
        if "ternary" in kinds or "optional" in kinds:
            return "ternary"
        return "lpm" if "lpm" in kinds else "exact"

    def _entry(self, entry: ir.Entry, table: ir.Table) -> Json:
        keys = [key for key in table.keys if key.match != "selector"]
        item: Json = {
            "match_key": [self._match(m, k) for m, k in zip(entry.matches, keys, strict=True)],
            "action_entry": {
                "action_id": self.action_ids[entry.action],
                "action_data": [hexstr(value) for value in entry.args],
            },
            "priority": entry.priority,
        }
        return self.noted(item, entry.pos)

    @staticmethod
    def _match(match: ir.Match, key: ir.Key) -> Json:
        width = key.field.type.width
        ones = (1 << width) - 1
        value = hexstr(match.value & ones, width)
        if key.match == "lpm":
            return {"match_type": "lpm", "key": value, "prefix_length": match.prefix}
        if key.match in ("ternary", "optional"):
            return {"match_type": "ternary", "key": value, "mask": hexstr(match.mask & ones, width)}
        if key.match == "range":
            return {"match_type": "range", "start": value, "end": hexstr(match.high & ones, width)}
        return {"match_type": "exact", "key": value}
