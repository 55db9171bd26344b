"""`P4Data`: values of P4 types (digest samples, register cells) as messages, and back to the engine's numbers.

The engine holds a structure as its fields' numbers in order; P4Info says how they nest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from finsy.proto import p4d, p4t

from switch.native.p4runtime import bytestrings
from switch.native.p4runtime.errors import INVALID_ARGUMENT, UNIMPLEMENTED, P4RuntimeError


def to_message(spec: p4t.P4DataTypeSpec, values: Sequence[int], types: p4t.P4TypeInfo) -> p4d.P4Data:
    """The message of a value whose fields, in order, are `values`.

    Raises P4RuntimeError when their number is not what the type says or the type has no numbers (varbit).
    """
    numbers = iter(values)
    message = p4d.P4Data()
    try:
        _fill(message, spec, numbers, types)
    except StopIteration as error:
        raise P4RuntimeError(INVALID_ARGUMENT, "P4Info describes more fields than the program has") from error
    if next(numbers, None) is not None:
        raise P4RuntimeError(INVALID_ARGUMENT, "P4Info describes fewer fields than the program has")
    return message


def from_message(
    spec: p4t.P4DataTypeSpec, message: p4d.P4Data, types: p4t.P4TypeInfo, where: str
) -> list[int]:
    """The numbers of a message, in order; negative numbers as two's complement. Raises P4RuntimeError."""
    kind = spec.WhichOneof("type_spec")
    if kind == "new_type":
        return from_message(_original(spec, types), message, types, where)
    if kind == "struct":
        members = [m.type_spec for m in types.structs[spec.struct.name].members]
        return _members(members, message.struct.members, message, "struct", types, where)
    if kind == "tuple":
        return _members(list(spec.tuple.members), message.tuple.members, message, "tuple", types, where)
    if kind == "bool":
        _expect(message, "bool", where)
        return [int(message.bool)]
    if kind == "serializable_enum":
        width = types.serializable_enums[spec.serializable_enum.name].underlying_type.bitwidth
        _expect(message, "enum_value", where)
        return [bytestrings.decode(message.enum_value, width, where)]
    if kind == "bitstring" and spec.bitstring.WhichOneof("type_spec") == "bit":
        _expect(message, "bitstring", where)
        return [bytestrings.decode(message.bitstring, spec.bitstring.bit.bitwidth, where)]
    if kind == "bitstring" and spec.bitstring.WhichOneof("type_spec") == "int":
        _expect(message, "bitstring", where)
        width = spec.bitstring.int.bitwidth
        return [bytestrings.decode_signed(message.bitstring, width, where) & ((1 << width) - 1)]
    raise P4RuntimeError(UNIMPLEMENTED, f"{where}: values of type {kind} are not supported")


def _fill(
    message: p4d.P4Data, spec: p4t.P4DataTypeSpec, numbers: Iterator[int], types: p4t.P4TypeInfo
) -> None:
    kind = spec.WhichOneof("type_spec")
    if kind == "new_type":
        _fill(message, _original(spec, types), numbers, types)
    elif kind == "struct":
        message.struct.SetInParent()
        for member in types.structs[spec.struct.name].members:
            _fill(message.struct.members.add(), member.type_spec, numbers, types)
    elif kind == "header":
        message.header.is_valid = True
        for field in types.headers[spec.header.name].members:
            width = field.type_spec.bit.bitwidth
            message.header.bitstrings.append(bytestrings.encode(next(numbers) & ((1 << width) - 1)))
    elif kind == "tuple":
        message.tuple.SetInParent()
        for item in spec.tuple.members:
            _fill(message.tuple.members.add(), item, numbers, types)
    elif kind == "bool":
        message.bool = bool(next(numbers))
    elif kind == "serializable_enum":
        message.enum_value = bytestrings.encode(next(numbers))
    elif kind == "enum":
        members = types.enums[spec.enum.name].members
        number = next(numbers)
        message.enum = members[number].name if number < len(members) else str(number)
    elif kind == "error":
        names = types.error.members
        number = next(numbers)
        message.error = names[number] if number < len(names) else str(number)
    elif kind == "bitstring" and spec.bitstring.WhichOneof("type_spec") == "bit":
        message.bitstring = bytestrings.encode(next(numbers))
    elif kind == "bitstring" and spec.bitstring.WhichOneof("type_spec") == "int":
        width = spec.bitstring.int.bitwidth
        number = next(numbers)
        message.bitstring = bytestrings.encode_signed(number - ((number >> (width - 1)) << width))
    else:
        raise P4RuntimeError(UNIMPLEMENTED, f"values of type {kind} are not supported")


def _original(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> p4t.P4DataTypeSpec:
    """The type behind a `type` declaration. A translated type keeps the program's width."""
    new_type = types.new_types[spec.new_type.name]
    original = p4t.P4DataTypeSpec()
    if new_type.WhichOneof("representation") == "original_type":
        original.CopyFrom(new_type.original_type)
        return original
    if new_type.translated_type.HasField("sdn_string"):
        raise P4RuntimeError(
            UNIMPLEMENTED, f"values of the named type {spec.new_type.name} are not supported"
        )
    original.bitstring.bit.bitwidth = new_type.translated_type.sdn_bitwidth
    return original


def _members(
    specs: Sequence[p4t.P4DataTypeSpec],
    messages: Sequence[p4d.P4Data],
    message: p4d.P4Data,
    kind: str,
    types: p4t.P4TypeInfo,
    where: str,
) -> list[int]:
    _expect(message, kind, where)
    if len(specs) != len(messages):
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{where}: {len(specs)} members are needed, {len(messages)} given"
        )
    numbers: list[int] = []
    for spec, member in zip(specs, messages, strict=True):
        numbers += from_message(spec, member, types, where)
    return numbers


def _expect(message: p4d.P4Data, kind: str, where: str) -> None:
    given = message.WhichOneof("data")
    if given != kind:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a {kind} is needed, {given or 'nothing'} is given")
