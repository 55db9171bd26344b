"""Random frames that a program's parser understands, and frames that it does not.

A frame is made by walking the parser: each state's headers are filled with random bits, and where the parser selects,
a transition is chosen first and the bits it looks at are set for it. Fields that are table keys often take values of
entries. From these, most frames sent are made by changing fields, flipping bits, cutting, lengthening; some are junk.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.differential.document import Document, Place

MAX_STATES = 40
MAX_BITS = 8 * 400
Field = tuple[Place, int, int]
"""A field, its first bit in the frame and its width."""


class Values:
    """Values worth trying, by field and by width."""

    def __init__(self, document: Document, random: Random) -> None:
        self.random = random
        self.document = document
        self.of_field: dict[Place, list[int]] = {}
        self.constants = document.constants()

    def add(self, place: Place, value: int) -> None:
        """A value that an entry matches."""
        self.of_field.setdefault(place, []).append(value)

    def pick(self, place: Place | None, width: int) -> int:
        """A value for a field."""
        r = self.random
        if width <= 0:
            return 0
        known = self.of_field.get(place) if place is not None else None
        dice = r.random()
        if known and dice < 0.6:
            return r.choice(known) & ((1 << width) - 1)
        if dice < 0.75:
            near = [v for bits in range(max(0, width - 3), width + 1) for v in self.constants.get(bits, ())]
            if near:
                return r.choice(near)
        if dice < 0.85:
            return r.choice([0, 1, (1 << width) - 1, 1 << (width - 1), 2, 5]) & ((1 << width) - 1)
        return r.getrandbits(width)


class Frame:
    """Bits under construction."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.bits: list[int | None] = []
        self.fields: list[Field] = []
        self.position = 0

    def _reach(self, end: int) -> None:
        if end > len(self.bits):
            self.bits += [None] * (end - len(self.bits))

    def put(self, at: int, width: int, value: int, mask: int = -1) -> None:
        """Set the bits that `mask` selects."""
        self._reach(at + width)
        for i in range(width):
            shift = width - 1 - i
            if mask >> shift & 1:
                self.bits[at + i] = value >> shift & 1

    def read(self, at: int, width: int) -> int:
        """Bits, undecided ones decided at random."""
        self._reach(at + width)
        value = 0
        for i in range(at, at + width):
            if self.bits[i] is None:
                self.bits[i] = self.random.getrandbits(1)
            value = value << 1 | (self.bits[i] or 0)
        return value

    def fill(self, at: int, width: int, value: int) -> None:
        """Decide the bits that nothing has decided."""
        self._reach(at + width)
        for i in range(width):
            if self.bits[at + i] is None:
                self.bits[at + i] = value >> (width - 1 - i) & 1

    def data(self) -> bytes:
        """Whole bytes."""
        length = (len(self.bits) + 7) // 8
        return self.read(0, 8 * length).to_bytes(length, "big") if length else b""


class Walk:
    """One walk through the parser."""

    def __init__(self, document: Document, values: Values, random: Random) -> None:
        self.document = document
        self.values = values
        self.random = random
        self.frame = Frame(random)
        self.next_index: dict[str, int] = {}
        self.where: dict[Place, tuple[int, int]] = {}
        self.known: dict[Place, int] = {}
        self.last: dict[str, str] = {}

    def run(self) -> tuple[bytes, list[Field]]:
        """The frame and its fields."""
        parsers = self.document.root.get("parsers") or []
        if parsers:
            parser = parsers[0]
            states = {s["name"]: s for s in parser["parse_states"]}
            state = parser["init_state"]
            for _ in range(MAX_STATES):
                if state is None or state not in states or self.frame.position > MAX_BITS:
                    break
                for op in states[state]["parser_ops"]:
                    self._op(op)
                state = self._transition(states[state])
        return self.frame.data(), self.frame.fields

    def _extract(self, header: str, varbit: int | None = None) -> None:
        kind = self.document.headers.get(header)
        for name, width in self.document.types.get(kind or "", ()):
            bits = width if width is not None else varbit or 0
            place = (header, name)
            at = self.frame.position
            self.frame.fill(at, bits, self.values.pick(place, bits) if bits <= 512 else 0)
            self.where[place] = (at, bits)
            self.known.pop(place, None)
            if bits:
                self.frame.fields.append((place, at, bits))
            self.frame.position = at + bits

    def _next(self, stack: str) -> str | None:
        index = self.next_index.get(stack, 0)
        self.next_index[stack] = index + 1
        headers = self.document.stacks.get(stack, [])
        if index >= len(headers):
            return None
        self.last[stack] = headers[index]
        return headers[index]

    def _target(self, target: dict[str, Any]) -> str | None:
        """The header that is extracted; None beyond the end of a stack."""
        if target["type"] == "regular":
            return str(target["value"])
        if target["type"] == "stack":
            return self._next(target["value"])
        stack, member = target["value"]
        index = self.next_index.get(stack, 0)
        self.next_index[stack] = index + 1
        unions = self.document.union_stacks.get(stack, [])
        header = unions[index].get(member) if index < len(unions) else None
        if header is not None:
            self.last[f"{stack}.{member}"] = header
        return header

    def _op(self, op: dict[str, Any]) -> None:
        name, parameters = op["op"], op["parameters"]
        if name in ("extract", "extract_VL"):
            bits = self.evaluate(parameters[1]) if name == "extract_VL" else 0
            if bits is None or not 0 <= bits <= 2048:
                bits = 8 * self.random.randrange(8)
            header = self._target(parameters[0])
            if header is not None:
                self._extract(header, bits)
        elif name in ("advance", "shift"):
            bits = self.evaluate(parameters[0])
            if bits is not None and 0 <= bits <= 2048:
                self.frame.position += bits * (8 if name == "shift" else 1)
        elif name == "set":
            target, source = parameters
            if target["type"] == "field":
                place = (target["value"][0], target["value"][1])
                ahead = self._slice(source)
                if ahead is not None:  # they may still be chosen
                    self.where[place] = ahead
                    return
                value = self.evaluate(source)
                self.where.pop(place, None)
                if value is None:
                    self.known.pop(place, None)
                else:
                    self.known[place] = value & ((1 << max(1, self.document.width(place))) - 1)

    def _bits_of(self, key: dict[str, Any]) -> tuple[int, int] | int | None:
        """Where a key's bits are in the frame, else its value, else None."""
        kind, value = key["type"], key["value"]
        if kind == "lookahead":
            return self.frame.position + int(value[0]), int(value[1])
        place: Place
        if kind == "field":
            place = (value[0], value[1])
        elif kind == "stack_field":
            place = (self.last.get(value[0], ""), value[1])
        else:
            place = (self.last.get(f"{value[0]}.{value[1]}", ""), value[-1])
        if place in self.where:
            return self.where[place]
        return self.known.get(place)

    def _slice(self, node: dict[str, Any]) -> tuple[int, int] | None:
        """Where the bits are in the frame that an expression picks out of it; None for any other expression."""
        kind, value = node["type"], node["value"]
        if kind in ("field", "lookahead", "stack_field"):
            bits = self._bits_of(node)
            return bits if isinstance(bits, tuple) else None
        if kind != "expression":
            return None
        if "op" not in value:
            return self._slice(value)
        if value["op"] not in (">>", "&") or value["right"]["type"] != "hexstr":
            return None
        inner, number = self._slice(value["left"]), int(value["right"]["value"], 16)
        if inner is None:
            return None
        at, width = inner
        if value["op"] == ">>":
            return (at, width - number) if number < width else None
        kept = number.bit_length()
        return (at + width - kept, kept) if number == (1 << kept) - 1 and kept <= width else None

    def _key_width(self, key: dict[str, Any]) -> int:
        kind, value = key["type"], key["value"]
        if kind == "lookahead":
            return int(value[1])
        if kind == "field":
            return self.document.width((value[0], value[1]))
        if kind == "stack_field":
            headers = self.document.stacks.get(value[0], [])
            return self.document.width((headers[0], value[1])) if headers else 0
        unions = self.document.union_stacks.get(value[0], [])
        header = unions[0].get(value[1], "") if unions else ""
        return self.document.width((header, value[-1]))

    def _transition(self, state: dict[str, Any]) -> str | None:
        transitions: list[dict[str, Any]] = state["transitions"]
        keys = state["transition_key"]
        if not transitions:
            return None
        if not keys:
            return _text(transitions[0]["next_state"])
        chosen = self.random.choice(transitions)
        widths = [self._key_width(k) for k in keys]
        places = [self._bits_of(k) for k in keys]
        if chosen["type"] == "hexstr":
            value = int(chosen["value"], 16)
            mask = -1 if chosen["mask"] is None else int(chosen["mask"], 16)
            shift = sum((w + 7) // 8 * 8 for w in widths)
            for width, place in zip(widths, places, strict=True):
                shift -= (width + 7) // 8 * 8
                if isinstance(place, tuple):
                    self.frame.put(place[0], place[1], value >> shift, mask >> shift)
        # Where the bits could not be set, the parser decides as it does.
        actual = [self.frame.read(*p) if isinstance(p, tuple) else p for p in places]
        if any(a is None for a in actual):
            return _text(chosen["next_state"])
        key = 0
        for width, part in zip(widths, actual, strict=True):
            key = key << ((width + 7) // 8 * 8) | (part or 0)
        for transition in transitions:
            if transition["type"] == "hexstr":
                mask = -1 if transition["mask"] is None else int(transition["mask"], 16)
                if key & mask == int(transition["value"], 16) & mask:
                    return _text(transition["next_state"])
            elif transition["type"] == "default":
                return _text(transition["next_state"])
        return None

    def evaluate(self, node: Any) -> int | None:
        """The value of an expression, None when it is not known."""
        if node is None:
            return None
        kind, value = node["type"], node["value"]
        if kind in ("hexstr", "bool"):
            return int(value, 16) if isinstance(value, str) else int(value)
        if kind in ("field", "stack_field", "lookahead", "union_stack_field"):
            bits = self._bits_of(node)
            return self.frame.read(*bits) if isinstance(bits, tuple) else bits
        if kind != "expression":
            return None
        if "op" not in value:
            return self.evaluate(value)
        left, right = self.evaluate(value["left"]), self.evaluate(value["right"])
        if right is None:
            return None
        op = value["op"]
        if op in ("d2b", "b2d"):
            return right
        if left is None:
            return None
        if op == "?":
            return self.evaluate(value["cond"])
        simple = {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "&": left & right,
            "|": left | right,
            "^": left ^ right,
            "==": int(left == right),
            "!=": int(left != right),
            "<": int(left < right),
            ">": int(left > right),
            "<=": int(left <= right),
            ">=": int(left >= right),
            "<<": left << min(right, 4096),
            ">>": left >> min(right, 4096),
        }
        return simple.get(op)


class Packets:
    """An endless, repeatable sequence of (port, frame)."""

    def __init__(
        self,
        document: Document,
        values: Values,
        random: Random,
        ports: tuple[int, ...],
        samples: Sequence[tuple[int, bytes]] = (),
    ) -> None:
        """`samples`: (port, frame) that are known to be worth sending; they make up half of what is sent."""
        self.document = document
        self.values = values
        self.random = random
        self.ports = ports
        self.samples = samples
        self.base: list[tuple[bytes, list[Field]]] = []
        for _ in range(250):
            data, fields = Walk(document, values, random).run()
            payload = random.choice([0, 0, 1, 4, 20, 46, 64, 200])
            self.base.append((data + random.randbytes(payload), fields))

    def __iter__(self) -> Packets:
        return self

    def __next__(self) -> tuple[int, bytes]:
        if self.samples and self.random.random() < 0.5:
            port, frame = self.random.choice(self.samples)
            return port, self._frame(frame, [])
        return self.random.choice(self.ports), self._frame(*self.random.choice(self.base))

    def _frame(self, data: bytes, fields: list[Field]) -> bytes:
        r = self.random
        dice = r.random()
        if dice < 0.05 or not data:
            return r.randbytes(r.choice([1, 13, 14, 20, 33, 60, 64, 128, 300]))
        if dice < 0.25 or (not fields and dice < 0.75):
            return self._checksums(data, fields)
        frame = bytearray(data)
        if dice < 0.75:
            for _ in range(r.choice([1, 1, 2, 3])):
                place, at, width = r.choice(fields)
                if width <= 512:
                    _store(frame, at, width, self.values.pick(place, width))
            return self._checksums(bytes(frame), fields)
        for _ in range(r.choice([1, 1, 2, 4])):
            frame[r.randrange(len(frame))] = r.choice([0, 1, 255, r.randrange(256)])
        if dice < 0.88:
            return bytes(frame[: r.randrange(1, len(frame) + 1)])
        if dice < 0.94:
            return bytes(frame + r.randbytes(r.randrange(64)))
        return bytes(frame)

    def _checksums(self, data: bytes, fields: list[Field]) -> bytes:
        """Half of the frames get the ones' complement sums that the program verifies."""
        sums = [c for c in self.document.root.get("checksums", ()) if c.get("verify", True)]
        if not sums or self.random.random() < 0.5:
            return data
        places = {place: (at, width) for place, at, width in fields}
        frame = bytearray(data)
        for item in sums:
            calculation = next(
                (c for c in self.document.root["calculations"] if c["name"] == item["calculation"]), None
            )
            target = places.get((item["target"][0], item["target"][1]))
            if calculation is None or calculation["algo"] != "csum16" or target is None:
                continue
            if calculation.get("with_payload"):
                continue
            bits = 0
            length = 0
            for part in calculation["input"]:
                if part["type"] == "field" and (part["value"][0], part["value"][1]) in places:
                    at, width = places[(part["value"][0], part["value"][1])]
                    bits, length = bits << width | _load(frame, at, width), length + width
                elif part["type"] == "hexstr":
                    width = part["bitwidth"]
                    bits, length = bits << width | int(part["value"], 16), length + width
            pad = -length % 16
            total = (bits << pad).to_bytes((length + pad) // 8, "big")
            value = sum(int.from_bytes(total[i : i + 2], "big") for i in range(0, len(total), 2))
            while value >> 16:
                value = (value & 0xFFFF) + (value >> 16)
            _store(frame, *target, ~value & 0xFFFF)
        return bytes(frame)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _load(frame: bytearray, at: int, width: int) -> int:
    whole = int.from_bytes(frame[at // 8 : (at + width + 7) // 8], "big")
    return whole >> (-(at + width) % 8) & ((1 << width) - 1)


def _store(frame: bytearray, at: int, width: int, value: int) -> None:
    first, last = at // 8, (at + width + 7) // 8
    if last > len(frame):
        return
    shift = -(at + width) % 8
    mask = ((1 << width) - 1) << shift
    whole = int.from_bytes(frame[first:last], "big")
    whole = whole & ~mask | (value << shift & mask)
    frame[first:last] = whole.to_bytes(last - first, "big")
