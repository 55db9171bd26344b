"""P4Runtime values and the program's: byte strings to numbers, and names to numbers for translated types.

A type annotated `@p4runtime_translation("uri", string)` has names on the P4Runtime side. The dictionary is built
as names arrive: a decimal name is its own number, any other gets the next number from `FIRST_NAMED` on.
"""

from __future__ import annotations

from switch.native.p4runtime import bytestrings
from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import Value

FIRST_NAMED = 256


class Translation:
    """The dictionaries of one device."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}
        self._names: dict[str, dict[int, str]] = {}

    def number(self, value: Value, data: bytes, what: str) -> int:
        """The program's number for `data`; `what` begins the sentence of an error."""
        if value.bitwidth:
            return bytestrings.decode(data, value.bitwidth, f"{what} {value.name!r}")
        try:
            name = data.decode()
        except UnicodeDecodeError as error:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{what} {value.name!r}: the name is not UTF-8") from error
        numbers = self._numbers.setdefault(value.type_name, {})
        number = numbers.get(name)
        if number is None:
            names = self._names.setdefault(value.type_name, {})
            number = int(name) if name.isdecimal() and len(name) < 10 else FIRST_NAMED
            while number in names:
                number += 1
            numbers[name] = number
            names[number] = name
        return number

    def data(self, value: Value, number: int) -> bytes:
        """The byte string for the program's `number`."""
        if value.bitwidth:
            return bytestrings.encode(number)
        return self._names.get(value.type_name, {}).get(number, str(number)).encode()
