"""The BMv2 JSON document of a low-level program (behavioral-model, docs/JSON_format.md, version 2.23)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compiler import ir
from compiler.bmv2json_action import ActionWriter, primitive
from compiler.bmv2json_expr import Json, data, hexstr, operand, truth
from compiler.bmv2json_table import TableWriter
from compiler.control_flow import Graph
from compiler.source import Source

VERSION = [2, 23]


class Writer:
    """Writes one document."""

    def __init__(self, unit: ir.Unit, graphs: list[Graph], source: Source | None, notes: bool = True) -> None:
        self.unit = unit
        self.graphs = graphs
        self.source = source if notes else None
        self.action_ids: dict[ir.Action, int] = {}

    def note(self, pos: int) -> Json | None:
        """Where in the P4 source something comes from."""
        if self.source is None or pos < 0:
            return None
        file, line, column = self.source.locate(pos)
        fragment = self.source.fragment(pos)
        return {"filename": file, "line": line, "column": column, "source_fragment": fragment}

    def noted(self, item: Json, pos: int) -> Json:
        """`item` with its source note."""
        note = self.note(pos)
        if note is not None:
            item["source_info"] = note
        return item

    def write(self) -> Json:
        """The document."""
        unit = self.unit
        types, headers, stacks, union_types, unions, union_stacks = self._headers()
        aliases = [[a, ["standard_metadata", f]] for t in unit.layouts for a, f in t.aliases]
        actions = [self._action(number, action) for number, action in enumerate(unit.actions)]
        return {
            "header_types": types,
            "headers": headers,
            "header_stacks": stacks,
            "header_union_types": union_types,
            "header_unions": unions,
            "header_union_stacks": union_stacks,
            "field_lists": [
                {"id": number, "name": name, "elements": [data(f) for f in fields]}
                for number, name, fields in unit.field_lists
            ],
            "errors": [[name, value] for name, value in unit.errors],
            "enums": [{"name": n, "entries": [[m, v] for m, v in entries]} for n, entries in unit.enums],
            "parsers": [self._parser()],
            "parse_vsets": [
                {"name": name, "id": number, "compressed_bitwidth": width, "max_size": size}
                for number, (name, width, size) in enumerate(unit.value_sets)
            ],
            "deparsers": [
                {
                    "name": "deparser",
                    "id": 0,
                    "order": unit.deparser,
                    "primitives": ActionWriter(self.note).write(unit.deparser_body),
                }
            ],
            "meter_arrays": self._arrays(unit.meters),
            "counter_arrays": self._arrays(unit.counters),
            "register_arrays": self._arrays(unit.registers),
            "calculations": [self._calculation(n, c) for n, c in enumerate(unit.calculations)],
            "learn_lists": [
                {"id": number, "name": name, "elements": [data(f) for f in fields]}
                for number, name, fields in unit.learn_lists
            ],
            "actions": actions,
            "pipelines": self._pipelines(),
            "checksums": [self._checksum(n, c) for n, c in enumerate(unit.checksums)],
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": aliases,
            "program": self.source.path if self.source is not None else "",
            "__meta__": {"version": VERSION, "compiler": "xoff"},
        }

    def _arrays(self, arrays: list[dict[str, Any]]) -> list[Json]:
        result = []
        for number, array in enumerate(arrays):
            item = {"name": array["name"], "id": number}
            item.update((k, v) for k, v in array.items() if k not in ("name", "pos"))
            result.append(self.noted(item, array.get("pos", -1)))
        return result

    # ------------------------------------------------------------------ headers

    def _headers(self) -> tuple[list[Json], ...]:
        unit = self.unit
        types = [self._header_type(number, layout) for number, layout in enumerate(unit.layouts)]
        headers = []
        ids: dict[str, int] = {}
        for number, instance in enumerate(unit.instances):
            ids[instance.name] = number
            headers.append(
                {
                    "name": instance.name,
                    "id": number,
                    "header_type": instance.layout.name,
                    "metadata": instance.metadata,
                    "pi_omit": True,
                }
            )
        stacks = [
            {
                "name": stack.name,
                "id": number,
                "header_type": stack.layout.name,
                "size": stack.size,
                "header_ids": [ids[f"{stack.name}[{i}]"] for i in range(stack.size)],
            }
            for number, stack in enumerate(unit.stacks)
        ]
        union_types: dict[str, Json] = {}
        unions = []
        union_ids: dict[str, int] = {}
        for number, union in enumerate(unit.unions):
            if union.type_name not in union_types:
                members = [[name, layout.name] for name, layout in union.members]
                union_types[union.type_name] = {
                    "name": union.type_name,
                    "id": len(union_types),
                    "headers": members,
                }
            union_ids[union.name] = number
            unions.append(
                {
                    "name": union.name,
                    "id": number,
                    "union_type": union.type_name,
                    "header_ids": [ids[f"{union.name}.{name}"] for name, _ in union.members],
                    "pi_omit": True,
                }
            )
        union_stacks = [
            {
                "name": stack.name,
                "id": number,
                "union_type": stack.type_name,
                "size": stack.size,
                "header_union_ids": [union_ids[f"{stack.name}[{i}]"] for i in range(stack.size)],
            }
            for number, stack in enumerate(unit.union_stacks)
        ]
        return types, headers, stacks, list(union_types.values()), unions, union_stacks

    @staticmethod
    def _header_type(number: int, layout: ir.HeaderLayout) -> Json:
        fields: list[list[Any]] = []
        total = 0
        varbit = False
        for name, scalar in layout.fields:
            total += scalar.width
            if scalar.kind == "varbit":
                varbit = True
                fields.append([name, "*"])
            else:
                fields.append([name, scalar.width, scalar.kind == "int"])
        if total % 8:
            fields.append(["_padding", 8 - total % 8, False])
        item: Json = {"name": layout.name, "id": number, "fields": fields}
        if varbit:
            item["max_length"] = (total + 7) // 8
        return item

    # ------------------------------------------------------------------ parser

    def _parser(self) -> Json:
        states = [self._state(number, state) for number, state in enumerate(self.unit.parser)]
        first = self.unit.parser[0].name
        return {"name": "parser", "id": 0, "init_state": first, "parse_states": states}

    def _state(self, number: int, state: ir.State) -> Json:
        return {
            "name": state.name,
            "id": number,
            "parser_ops": [self._parser_op(stmt) for stmt in state.body],
            "transitions": [self._transition(case, state.keys) for case in state.cases],
            "transition_key": [data(key) for key in state.keys],
        }

    def _parser_op(self, stmt: ir.Stmt) -> Json:
        if isinstance(stmt, ir.Extract):
            target: Json
            if isinstance(stmt.header, ir.NextElement):
                if stmt.header.member is None:
                    target = {"type": "stack", "value": stmt.header.stack}
                else:
                    target = {"type": "union_stack", "value": [stmt.header.stack, stmt.header.member]}
            else:
                target = {"type": "regular", "value": stmt.header.name}
            if stmt.length is None:
                return {"op": "extract", "parameters": [target]}
            length = {"type": "expression", "value": data(stmt.length)}
            return {"op": "extract_VL", "parameters": [target, length]}
        if isinstance(stmt, ir.Advance):
            amount = data(stmt.amount)
            if amount["type"] not in ("field", "hexstr"):
                amount = {"type": "expression", "value": amount}
            return {"op": "advance", "parameters": [amount]}
        if isinstance(stmt, ir.Verify):
            return {"op": "verify", "parameters": [truth(stmt.condition), data(stmt.error)]}
        settable = isinstance(stmt, ir.Assign) and stmt.target.type.kind != "varbit"
        if settable and isinstance(stmt, ir.Assign) and isinstance(stmt.target, ir.Field):
            return {"op": "set", "parameters": [operand(stmt.target), operand(stmt.value)]}
        op, params = primitive(stmt)
        return {"op": "primitive", "parameters": [self.noted({"op": op, "parameters": params}, stmt.pos)]}

    @staticmethod
    def _transition(case: ir.Case, keys: list[ir.Expr]) -> Json:
        target = None if case.target is None else case.target.name
        if case.value_set is not None:
            return {"type": "parse_vset", "value": case.value_set, "mask": None, "next_state": target}
        if case.keys is None or all(mask == 0 for _, mask in case.keys):
            return {"type": "default", "value": None, "mask": None, "next_state": target}
        value = mask = 0
        size = 0
        exact = all(m is None for _, m in case.keys)
        for key, (part, part_mask) in zip(keys, case.keys, strict=True):
            ones = (1 << key.type.width) - 1
            padded = 8 * ((key.type.width + 7) // 8)
            size += padded
            value = (value << padded) | (part & ones)
            mask = (mask << padded) | (ones if part_mask is None else part_mask & ones)
        return {
            "type": "hexstr",
            "value": hexstr(value, size),
            "mask": None if exact else hexstr(mask, size),
            "next_state": target,
        }

    # ------------------------------------------------------------------ actions and pipelines

    def _action(self, number: int, action: ir.Action) -> Json:
        self.action_ids[action] = number
        item: Json = {
            "name": action.name,
            "id": number,
            "runtime_data": [{"name": name, "bitwidth": scalar.width} for name, scalar in action.params],
            "primitives": ActionWriter(self.note).write(action.body),
        }
        return self.noted(item, action.pos)

    def _pipelines(self) -> list[Json]:
        result = []
        tables = TableWriter(self.action_ids, self.noted)
        profile_id = 0
        for number, graph in enumerate(self.graphs):
            profiles = []
            for profile in self.unit.profiles.get(graph.name, []):
                item = {"name": profile["name"], "id": profile_id, "max_size": profile["max_size"]}
                if "algorithm" in profile:
                    inputs = [data(f) for f in profile["inputs"]]
                    item["selector"] = {"algo": profile["algorithm"], "input": inputs}
                profiles.append(self.noted(item, profile.get("pos", -1)))
                profile_id += 1
            conditionals = [
                self.noted(
                    {
                        "name": node.name,
                        "id": index,
                        "expression": truth(node.condition),
                        "true_next": node.yes,
                        "false_next": node.no,
                    },
                    node.pos,
                )
                for index, node in enumerate(graph.conditionals)
            ]
            pipeline: Json = {
                "name": graph.name,
                "id": number,
                "init_table": graph.first,
                "tables": [tables.write(node) for node in graph.tables],
                "action_profiles": profiles,
                "conditionals": conditionals,
            }
            result.append(self.noted(pipeline, graph.pos))
        return result

    # ------------------------------------------------------------------ calculations

    def _calculation(self, number: int, calculation: ir.Calculation) -> Json:
        inputs: list[Json] = []
        for item in calculation.inputs:
            entry = data(item)
            if entry["type"] == "hexstr":
                entry["bitwidth"] = item.type.width
            inputs.append(entry)
        if calculation.payload:
            inputs.append({"type": "payload", "value": None})
        result = {
            "name": calculation.name,
            "id": number,
            "algo": calculation.algorithm,
            "input": inputs,
        }
        return self.noted(result, calculation.pos)

    def _checksum(self, number: int, checksum: ir.Checksum) -> Json:
        item: Json = {
            "name": checksum.name,
            "id": number,
            "type": "generic",
            "target": [checksum.target.header, checksum.target.field],
            "calculation": checksum.calculation,
            "verify": checksum.verify,
            "update": not checksum.verify,
            "if_cond": truth(checksum.condition),
        }
        return self.noted(item, checksum.pos)


def stem_of(path: str) -> str:
    """The program's name in names of hidden things."""
    return Path(path).stem.replace("-", "_").replace(".", "_")
