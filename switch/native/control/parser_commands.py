"""Commands about what the parser and the hashes of a program are told at run time: value sets, custom CRCs."""

from __future__ import annotations

from switch.native.binding import Key
from switch.native.control.command_base import CommandBase, Lines, named
from switch.native.control.literals import LiteralError, number, octets

_TRUE, _FALSE = ("true", "True"), ("false", "False")


class ParserCommands(CommandBase):
    """Value sets, whose members here are exact values of all fields in one number, and custom CRCs."""

    def do_show_pvs(self) -> Lines:
        """show_pvs"""
        sets = self._program.value_sets
        return [f"{name:30} [compressed bitwidth:{sets[name].width}]" for name in sorted(sets)]

    def do_pvs_add(self, name: str, text: str) -> Lines:
        """pvs_add VALUE_SET VALUE"""
        found = self._value_set(name)
        member = self._member(found, text)
        present = self._engine.value_set(found)
        if member not in present:
            self._engine.value_set_set(found, [*present, member])
        return []

    def do_pvs_remove(self, name: str, text: str) -> Lines:
        """pvs_remove VALUE_SET VALUE"""
        found = self._value_set(name)
        member = self._member(found, text)
        self._engine.value_set_set(found, [m for m in self._engine.value_set(found) if m != member])
        return []

    def do_pvs_get(self, name: str) -> Lines:
        """pvs_get VALUE_SET"""
        found = self._value_set(name)
        return [self._shown(found, member) for member in self._engine.value_set(found)]

    def do_pvs_clear(self, name: str) -> Lines:
        """pvs_clear VALUE_SET"""
        self._engine.value_set_set(self._value_set(name), [])
        return []

    def do_set_crc16_parameters(self, name: str, *parameters: str) -> Lines:
        """set_crc16_parameters NAME POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER"""
        return self._set_crc(name, 16, parameters)

    def do_set_crc32_parameters(self, name: str, *parameters: str) -> Lines:
        """set_crc32_parameters NAME POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER"""
        return self._set_crc(name, 32, parameters)

    def _set_crc(self, name: str, width: int, parameters: tuple[str, ...]) -> Lines:
        crcs = {known: bits for known, bits in self._engine.custom_crcs().items() if bits == width}
        if name not in crcs:
            raise LiteralError(f"there is no crc{width}_custom {name}; there are {', '.join(crcs) or 'none'}")
        if len(parameters) != 5:
            raise LiteralError("a CRC has a polynomial, an initial value, a final xor and two reflections")
        polynomial, initial, final = (number(text, "parameter") for text in parameters[:3])
        reflect_data, reflect_remainder = (_truth(text) for text in parameters[3:])
        self._engine.crc_set(
            name,
            polynomial,
            initial,
            final,
            reflect_data=reflect_data,
            reflect_remainder=reflect_remainder,
        )
        return []

    def _value_set(self, name: str) -> str:
        return named(self._program.value_sets, name, "parser value set")

    def _member(self, name: str, text: str) -> tuple[tuple[str, int], ...]:
        """The member whose fields are the bits of a number, the first field first."""
        widths = self._program.value_set_widths[name]
        value, left = number(text, "value"), sum(widths)
        if not 0 <= value < 1 << left:
            raise LiteralError(f"{text} does not fit in {left} bits")
        fields = []
        for width in widths:
            left -= width
            fields.append(("exact", value >> left & ((1 << width) - 1)))
        return tuple(fields)

    def _shown(self, name: str, member: Key) -> str:
        widths, value = self._program.value_set_widths[name], 0
        for element, width in zip(member, widths, strict=True):
            value = value << width | (element[1] or 0)
        return octets(value, sum(widths))


def _truth(text: str) -> bool:
    if text in (*_TRUE, *_FALSE):
        return text in _TRUE
    return number(text, "reflection") != 0
