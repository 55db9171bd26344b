"""The STF language of p4c's test-suite: table entries, packets in, packets expected. One command a line.

add [TABLE] [prio] key:val … action(arg:val, …) [= $id]      setdefault TABLE action(arg:val, …)
packet PORT hex            expect PORT [hex, * for any nibble] [$]      no_packet      wait
mc_mgrp_create G   mc_node_create RID PORT…   mc_node_associate G H   mirroring_add S PORT   …
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


class StfError(Exception):
    """A line that is no STF."""


@dataclass
class Number:
    """A value, with its mask where the text has `*` digits or a `/length`."""

    text: str
    value: int
    mask: int | None = None
    prefix: int | None = None


@dataclass
class Add:
    """`add`: one table entry. A larger `priority` wins."""

    table: str
    priority: int | None
    keys: list[tuple[str, Number]]
    action: str
    args: list[tuple[str, Number]]


@dataclass
class SetDefault:
    """`setdefault`."""

    table: str
    action: str
    args: list[tuple[str, Number]]


@dataclass
class Packet:
    """A frame into a port."""

    port: int
    data: bytes


@dataclass
class Expect:
    """A frame out of a port: `pattern` holds hex digits and `*`; None: anything."""

    port: int
    pattern: str | None
    exact: bool

    def matches(self, frame: bytes) -> bool:
        """Whether `frame` is what was expected."""
        if self.pattern is None:
            return True
        text = frame.hex()
        if len(text) < len(self.pattern) or (self.exact and len(text) != len(self.pattern)):
            return False
        return all(want in ("*", got) for want, got in zip(self.pattern, text, strict=False))


@dataclass
class Command:
    """Anything else: a word and its arguments."""

    word: str
    args: list[str]


@dataclass
class Script:
    """A whole STF file."""

    steps: list[Add | SetDefault | Packet | Expect | Command] = field(default_factory=list)

    def ports(self) -> set[int]:
        """Every port that is named."""
        return {step.port for step in self.steps if isinstance(step, Packet | Expect)}


_TOKEN = re.compile(r'"[^"]*"|[^\s"]+')


def parse(text: str) -> Script:
    """The script in `text`."""
    script = Script()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        word, _, rest = line.partition(" ")
        if "\t" in word:
            word, _, more = word.partition("\t")
            rest = f"{more} {rest}"
        try:
            step = _line(word.lower(), rest.strip())
        except (ValueError, IndexError) as problem:
            raise StfError(f"line {number}: {raw.strip()}: {problem}") from None
        if step is not None:
            script.steps.append(step)
    return script


def _line(word: str, rest: str) -> Add | SetDefault | Packet | Expect | Command | None:
    if word == "packet":
        port, _, data = rest.partition(" ")
        return Packet(int(port), bytes.fromhex(re.sub(r"\s", "", data)))
    if word == "expect":
        port, _, data = rest.partition(" ")
        pattern = re.sub(r"\s", "", data).lower()
        exact = pattern.endswith("$")
        pattern = pattern.rstrip("$")
        return Expect(int(port), pattern or None, exact)
    if word in ("wait", "no_packet"):
        return None
    if word == "remove":
        return None
    if word == "add":
        return _add(rest)
    if word == "setdefault":
        table, _, call = rest.partition(" ")
        action, args = _call(call)
        return SetDefault(table.strip('"'), action, args)
    return Command(word, rest.split())


def _add(rest: str) -> Add:
    head, _, _ = rest.partition("=")
    table_match = _TOKEN.match(head.strip())
    if table_match is None:
        raise ValueError("a table is needed")
    table = table_match.group().strip('"')
    rest = head.strip()[table_match.end() :].strip()
    priority: int | None = None
    number = re.match(r"(\d+)\s", rest)
    if number:
        priority = int(number.group(1))
        rest = rest[number.end() :]
    call = re.search(r'((?:"[^"]*"|[\w.$]+)\s*\([^()]*\))\s*$', rest)
    if call is None:
        raise ValueError("an action is needed")
    keys: list[tuple[str, Number]] = []
    for name, value in re.findall(r'("[^"]*"|[^\s:"]+)\s*:\s*(\S+)', rest[: call.start()]):
        keys.append((name.strip('"'), number_of(value)))
    action, args = _call(call.group(1))
    return Add(table, priority, keys, action, args)


def _call(text: str) -> tuple[str, list[tuple[str, Number]]]:
    found = re.match(r'\s*("[^"]*"|[\w.$]+)\s*\(([^()]*)\)\s*$', text)
    if found is None:
        raise ValueError(f"{text} is no action call")
    args: list[tuple[str, Number]] = []
    for part in filter(None, (p.strip() for p in found.group(2).split(","))):
        name, _, value = part.partition(":")
        args.append((name.strip().strip('"'), number_of(value.strip())))
    return found.group(1).strip('"'), args


def number_of(text: str) -> Number:
    """A decimal, 0x or 0b number; `*` digits make a mask, `/n` a prefix length."""
    body, _, length = text.partition("/")
    lower = body.lower().replace("_", "")
    base, digits, bits = 10, lower, 0
    if lower.startswith("0x"):
        base, digits, bits = 16, lower[2:], 4
    elif lower.startswith("0b"):
        base, digits, bits = 2, lower[2:], 1
    prefix = int(length) if length else None
    if "*" not in digits:
        return Number(text, int(digits, base), None, prefix)
    if not bits:
        raise ValueError(f"{text}: * needs 0x or 0b")
    value = int(digits.replace("*", "0"), base)
    mask = int("".join("0" if d == "*" else format((1 << bits) - 1, "x") for d in digits), base)
    return Number(text, value, mask, prefix)


# --------------------------------------------------------------------------- names


def resolve(name: str, known: list[str], what: str) -> str:
    """`name` among `known`: exactly, or as the only one that ends in `.name`."""
    if name in known:
        return name
    ends = [k for k in dict.fromkeys(known) if k.endswith("." + name)]
    if len(ends) == 1:
        return ends[0]
    if not ends:
        raise StfError(f"there is no {what} called {name}")
    raise StfError(f"{what} {name} could be {', '.join(ends)}")


def key_position(name: str, names: list[str]) -> int:
    """Which key an STF key name means."""
    wanted = re.sub(r"\$(\d+)", r"[\1]", name)
    forms = [wanted, f"{wanted}$"]
    if wanted.endswith(".$valid$"):
        forms += [wanted.replace(".$valid$", ".isValid()"), wanted.replace(".$valid$", ".$valid$")]
    for form in forms:
        if form in names:
            return names.index(form)
    ends = [i for i, known in enumerate(names) for form in forms if known.endswith("." + form)]
    if not ends:
        valid = (f"{wanted}.$valid$", f"{wanted}.isValid()")
        ends = [
            i
            for i, known in enumerate(names)
            if known in valid or known.endswith(tuple("." + v for v in valid))
        ]
    if len(set(ends)) == 1:
        return ends[0]
    raise StfError(f"there is no key called {name} among {', '.join(names)}")
