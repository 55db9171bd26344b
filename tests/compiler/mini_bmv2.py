"""A small interpreter of BMv2 JSON, written from behavioral-model's docs/JSON_format.md.

One packet, one pass: parser, pipelines, deparser (its primitives, then its list of headers). It knows constant entries
and default actions, and no externs but registers. It is the yardstick for what the compiler's output means when no
switch is at hand.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class ParserError(Exception):
    """The parser stopped; `code` is the error's number."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Header:
    """A header or metadata instance."""

    def __init__(self, kind: Json, metadata: bool) -> None:
        self.kind = kind
        self.valid = metadata
        self.metadata = metadata
        self.values: dict[str, int] = {f[0]: 0 for f in kind["fields"]}
        self.lengths: dict[str, int] = {f[0]: 0 for f in kind["fields"] if f[1] == "*"}

    def width(self, name: str) -> int:
        """Width of a field now."""
        for field in self.kind["fields"]:
            if field[0] == name:
                return self.lengths[name] if field[1] == "*" else int(field[1])
        raise KeyError(name)

    def store(self, name: str, value: int) -> None:
        """Assign, wrapped to the field."""
        width = self.width(name)
        value &= (1 << width) - 1
        signed = next((len(f) > 2 and f[2]) for f in self.kind["fields"] if f[0] == name)
        if signed and width and value >> (width - 1):
            value -= 1 << width
        self.values[name] = value

    def copy_from(self, other: Header) -> None:
        """assign_header."""
        self.valid = other.valid
        if other.valid:
            self.values = dict(other.values)
            self.lengths = dict(other.lengths)

    def emit(self) -> str:
        """The fields as bits."""
        out = ""
        for field in self.kind["fields"]:
            width = self.width(field[0])
            if width:
                out += format(self.values[field[0]] & ((1 << width) - 1), f"0{width}b")
        return out


class Switch:
    """One packet's walk through a program."""

    def __init__(self, document: Json) -> None:
        self.document = document
        kinds = {k["name"]: k for k in document["header_types"]}
        self.headers = {
            h["name"]: Header(kinds[h["header_type"]], h["metadata"]) for h in document["headers"]
        }
        names = {h["id"]: h["name"] for h in document["headers"]}
        self.stacks = {s["name"]: [names[i] for i in s["header_ids"]] for s in document["header_stacks"]}
        self.next = dict.fromkeys(self.stacks, 0)
        self.unions: dict[str, list[str]] = {}
        for union in document["header_unions"]:
            members = [names[i] for i in union["header_ids"]]
            for member in members:
                self.unions[member] = members
        unions = {u["id"]: u["name"] for u in document["header_unions"]}
        self.union_stacks = {
            s["name"]: [unions[i] for i in s["header_union_ids"]] for s in document["header_union_stacks"]
        }
        self.actions = {a["id"]: a for a in document["actions"]}
        self.registers = {r["name"]: [0] * r["size"] for r in document["register_arrays"]}
        self.widths = {r["name"]: r["bitwidth"] for r in document["register_arrays"]}
        self.exited = False
        self.applied: list[str] = []
        """Tables that were looked up, in order."""
        self.args: list[int] = []
        self.bits = ""
        self.at = 0

    # ------------------------------------------------------------------ the walk

    def run(self, packet: bytes, **metadata: int) -> bytes:
        """The packet that comes out (whatever egress_spec says)."""
        standard = self.headers["standard_metadata"]
        for name, value in metadata.items():
            standard.store(name, value)
        standard.store("packet_length", len(packet))
        self.bits = "".join(format(byte, "08b") for byte in packet)
        try:
            self._parse()
        except ParserError as stop:
            standard.store("parser_error", stop.code)
        for pipeline in self.document["pipelines"]:
            self.exited = False
            self._pipeline(pipeline)
        self._action(self.document["deparsers"][0])
        out = "".join(
            self.headers[n].emit() for n in self.document["deparsers"][0]["order"] if self.headers[n].valid
        )
        out += self.bits[self.at :]
        return bytes(int(out[i : i + 8], 2) for i in range(0, len(out), 8))

    def field(self, header: str, name: str) -> int:
        """A field's value."""
        if name == "$valid$":
            return int(self.headers[header].valid)
        return self.headers[header].values[name]

    # ------------------------------------------------------------------ parser

    def _error(self, name: str) -> ParserError:
        return ParserError(dict(self.document["errors"])[name])

    def _parse(self) -> None:
        parser = self.document["parsers"][0]
        states = {s["name"]: s for s in parser["parse_states"]}
        name = parser["init_state"]
        while name is not None:
            state = states[name]
            for op in state["parser_ops"]:
                self._parser_op(op)
            name = self._transition(state)

    def _take(self, width: int) -> str:
        if self.at + width > len(self.bits):
            raise self._error("PacketTooShort")
        part = self.bits[self.at : self.at + width]
        self.at += width
        return part

    def _parser_op(self, op: Json) -> None:
        params = op["parameters"]
        if op["op"] in ("extract", "extract_VL"):
            target = params[0]
            if target["type"] == "stack":
                position = self.next[target["value"]]
                if position >= len(self.stacks[target["value"]]):
                    raise self._error("StackOutOfBounds")
                header = self.stacks[target["value"]][position]
                self.next[target["value"]] += 1
            elif target["type"] == "union_stack":
                stack, member = target["value"]
                if self.next.setdefault(stack, 0) >= len(self.union_stacks[stack]):
                    raise self._error("StackOutOfBounds")
                header = f"{self.union_stacks[stack][self.next[stack]]}.{member}"
                self.next[stack] += 1
            else:
                header = target["value"]
            length = self.value(params[1]["value"]) if len(params) > 1 else 0
            self._extract(header, length)
        elif op["op"] == "set":
            header, name = params[0]["value"]
            self.headers[header].store(name, self._source(params[1]))
        elif op["op"] == "verify":
            if not self.value(params[0]):
                raise ParserError(self.value(params[1]))
        elif op["op"] == "advance":
            self._take(
                self.value(params[0]["value"]) if params[0]["type"] == "expression" else self.value(params[0])
            )
        elif op["op"] == "primitive":
            self._primitive(params[0])
        else:
            raise AssertionError(op)

    def _source(self, param: Json) -> int:
        if param["type"] == "lookahead":
            offset, width = param["value"]
            if self.at + offset + width > len(self.bits):
                raise self._error("PacketTooShort")
            return int(self.bits[self.at + offset : self.at + offset + width], 2)
        return self.operand(param)

    def _extract(self, name: str, length: int) -> None:
        header = self.headers[name]
        for field, width, *_ in header.kind["fields"]:
            if width == "*":
                header.lengths[field] = length
                width = length
            part = self._take(width)
            header.store(field, int(part, 2) if part else 0)
        self._mark_valid(name)

    def _transition(self, state: Json) -> str | None:
        key = mask_width = 0
        for part in state["transition_key"]:
            if part["type"] == "lookahead":
                value, width = self._source(part), part["value"][1]
            else:
                value, width = self.value(part), self._key_width(part)
            padded = 8 * ((width + 7) // 8)
            key = (key << padded) | (value & ((1 << width) - 1))
            mask_width += padded
        for transition in state["transitions"]:
            if transition["type"] == "default":
                return transition["next_state"]  # type: ignore[no-any-return]
            mask = transition["mask"]
            bits = int(mask, 16) if mask is not None else (1 << mask_width) - 1
            if key & bits == int(transition["value"], 16) & bits:
                return transition["next_state"]  # type: ignore[no-any-return]
        raise AssertionError(f"state {state['name']} has no default")

    def _key_width(self, part: Json) -> int:
        header, name = part["value"]
        if part["type"] == "stack_field":
            header = self.stacks[header][0]
        return 1 if name == "$valid$" else self.headers[header].width(name)

    # ------------------------------------------------------------------ pipelines

    def _pipeline(self, pipeline: Json) -> None:
        tables = {t["name"]: t for t in pipeline["tables"]}
        conditionals = {c["name"]: c for c in pipeline["conditionals"]}
        node = pipeline["init_table"]
        while node is not None and not self.exited:
            if node in conditionals:
                found = conditionals[node]
                node = found["true_next"] if self.value(found["expression"]) else found["false_next"]
            else:
                node = self._table(tables[node])

    def _table(self, table: Json) -> str | None:
        self.applied.append(table["name"])
        hit = self._lookup(table)
        chosen = hit["action_entry"] if hit else table.get("default_entry")
        after = table["next_tables"]
        if chosen is None:
            return table["base_default_next"]  # type: ignore[no-any-return]
        action = self.actions[chosen["action_id"]]
        self.args = [int(v, 16) for v in chosen["action_data"]]
        self._action(action)
        if "__HIT__" in after:
            return after["__HIT__" if hit else "__MISS__"]  # type: ignore[no-any-return]
        return after[action["name"]]  # type: ignore[no-any-return]

    def _lookup(self, table: Json) -> Json | None:
        best: Json | None = None
        rank = None
        for entry in table.get("entries", []):
            score = entry["priority"]
            for key, match in zip(table["key"], entry["match_key"], strict=True):
                header, name = key["target"]
                value = self.field(header, name)
                width = 1 if name == "$valid$" else self.headers[header].width(name)
                value &= (1 << width) - 1 if key["mask"] is None else int(key["mask"], 16)
                if match["match_type"] == "exact":
                    fits = value == int(match["key"], 16)
                elif match["match_type"] == "ternary":
                    mask = int(match["mask"], 16)
                    fits = value & mask == int(match["key"], 16) & mask
                elif match["match_type"] == "range":
                    fits = int(match["start"], 16) <= value <= int(match["end"], 16)
                else:
                    length = match["prefix_length"]
                    fits = value >> (width - length) == int(match["key"], 16) >> (width - length)
                    score = -length
                if not fits:
                    break
            else:
                if rank is None or score < rank:
                    best, rank = entry, score
        return best

    def _action(self, action: Json) -> None:
        position = 0
        steps = 0
        while position < len(action["primitives"]):
            step = action["primitives"][position]
            params = step["parameters"]
            position += 1
            steps += 1
            assert steps < 100_000, "an action that does not end"
            if step["op"] == "_jump":
                position = int(params[0]["value"], 16)
            elif step["op"] == "_jump_if_zero":
                if not self.operand(params[0]):
                    position = int(params[1]["value"], 16)
            else:
                self._primitive(step)

    def _header_of(self, param: Json) -> str:
        if param["type"] == "header":
            return param["value"]  # type: ignore[no-any-return]
        return self._element(param["value"])

    def _mark_valid(self, name: str) -> None:
        for member in self.unions.get(name, ()):
            self.headers[member].valid = False
        self.headers[name].valid = True

    def _primitive(self, step: Json) -> None:
        op, params = step["op"], step["parameters"]
        if op in ("assign", "assign_VL"):
            self._assign(params)
        elif op == "assign_header":
            target, source = self._header_of(params[0]), self._header_of(params[1])
            if self.headers[source].valid:
                self._mark_valid(target)
            self.headers[target].copy_from(self.headers[source])
        elif op == "add_header":
            name = self._header_of(params[0])
            if not self.headers[name].valid:
                self.headers[name].values = dict.fromkeys(self.headers[name].values, 0)
                self._mark_valid(name)
        elif op == "remove_header":
            self.headers[self._header_of(params[0])].valid = False
        elif op == "assign_header_stack":
            target, source = params[0]["value"], params[1]["value"]
            for to, of in zip(self.stacks[target], self.stacks[source], strict=True):
                self.headers[to].copy_from(self.headers[of])
            self.next[target] = self.next[source]
        elif op in ("push", "pop"):
            self._shift(params[0]["value"], int(params[1]["value"], 16), op == "push")
        elif op == "exit":
            self.exited = True
        elif op == "mark_to_drop":
            self.headers["standard_metadata"].store("egress_spec", 511)
            self.headers["standard_metadata"].store("mcast_grp", 0)
        elif op == "register_write":
            array = params[0]["value"]
            index = self.operand(params[1])
            if index < len(self.registers[array]):
                self.registers[array][index] = self.operand(params[2]) & ((1 << self.widths[array]) - 1)
        elif op == "register_read":
            array = params[1]["value"]
            index = self.operand(params[2])
            if index < len(self.registers[array]):
                self.headers[params[0]["value"][0]].store(params[0]["value"][1], self.registers[array][index])
        else:
            raise AssertionError(f"primitive {op} is not known here")

    def _shift(self, stack: str, count: int, push: bool) -> None:
        names = self.stacks[stack]
        old = [(self.headers[n].valid, dict(self.headers[n].values)) for n in names]
        for position, name in enumerate(names):
            source = position - count if push else position + count
            if 0 <= source < len(names):
                self.headers[name].valid, self.headers[name].values = old[source]
            else:
                self.headers[name].valid = False
                self.headers[name].values = dict.fromkeys(self.headers[name].values, 0)

    def _assign(self, params: list[Json]) -> None:
        target = params[0]
        value = self.operand(params[1])
        if target["type"] == "field":
            header, name = target["value"]
            source = params[1]
            if name in self.headers[header].lengths and source["type"] == "field":
                other, part = source["value"]
                self.headers[header].lengths[name] = self.headers[other].lengths[part]
            self.headers[header].store(name, value)
            return
        inner = target["value"]["value"]
        assert inner["op"] == "access_field"
        header = self._element(inner["left"])
        self.headers[header].store(self.headers[header].kind["fields"][inner["right"]][0], value)

    # ------------------------------------------------------------------ expressions

    def operand(self, param: Json) -> int:
        """A parameter of a primitive."""
        if param["type"] == "runtime_data":
            return self.args[param["value"]]
        if param["type"] == "expression":
            return int(self.value(param["value"]))
        return int(self.value(param))

    def _element(self, expression: Json) -> str:
        inner = expression["value"]
        assert inner["op"] == "dereference_header_stack"
        return self.stacks[inner["left"]["value"]][self.value(inner["right"])]

    def value(self, expression: Json) -> Any:
        """The value of an expression: an unbounded int, or a bool."""
        kind, content = expression["type"], expression["value"]
        if kind == "hexstr":
            return int(content, 16)
        if kind == "bool":
            return bool(content)
        if kind == "field":
            return self.field(*content)
        if kind == "local":
            return self.args[content]
        if kind == "stack_field":
            return self.field(self.stacks[content[0]][self.next[content[0]] - 1], content[1])
        assert kind == "expression", kind
        return self._operation(content)

    def _operation(self, content: Json) -> Any:
        op, left, right = content["op"], content["left"], content["right"]
        if op == "?":
            return self.value(left) if self.value(content["cond"]) else self.value(right)
        if op == "access_field":
            header = self.headers[self._element(left)]
            return header.values[header.kind["fields"][right][0]]
        if op == "valid":
            return self.headers[self._element(right)].valid
        if op == "last_stack_index":
            return self.next[right["value"]] - 1
        if left is None:
            value = self.value(right)
            return {"d2b": bool, "b2d": int, "not": lambda v: not v, "~": lambda v: ~v, "-": lambda v: -v}[
                op
            ](value)
        a, b = self.value(left), self.value(right)
        if op == "two_comp_mod":
            a &= (1 << b) - 1
            return a - (1 << b) if a >> (b - 1) else a
        if op == "usat_cast":
            return max(0, min((1 << b) - 1, a))
        if op == "sat_cast":
            return max(-(1 << (b - 1)), min((1 << (b - 1)) - 1, a))
        return _BINARY[op](a, b)


_BINARY: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}
