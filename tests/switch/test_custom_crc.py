"""CRCs whose parameters are set at run time, by the check values of the catalogue of parametrised CRC algorithms."""

import pytest
from p4programs import compiled

from switch.native.binding import Engine, EngineError
from switch.native.program import Program

TEXT = b"123456789"
CRC16 = [  # polynomial, initial, final xor, reflect in, reflect out, check (G. Cook's catalogue, reveng.sourceforge.io)
    ("ARC", 0x8005, 0, 0, True, True, 0xBB3D),
    ("XMODEM", 0x1021, 0, 0, False, False, 0x31C3),
    ("IBM-3740", 0x1021, 0xFFFF, 0, False, False, 0x29B1),
    ("IBM-SDLC", 0x1021, 0xFFFF, 0xFFFF, True, True, 0x906E),
    ("MODBUS", 0x8005, 0xFFFF, 0, True, True, 0x4B37),
    ("DNP", 0x3D65, 0, 0xFFFF, True, True, 0xEA82),
    ("GENIBUS", 0x1021, 0xFFFF, 0xFFFF, False, False, 0xD64E),
]
CRC32 = [
    ("ISO-HDLC", 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, True, True, 0xCBF43926),
    ("BZIP2", 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, False, False, 0xFC891918),
    ("ISCSI", 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, True, True, 0xE3069283),
    ("CKSUM", 0x04C11DB7, 0, 0xFFFFFFFF, False, False, 0x765E7680),
    ("MPEG-2", 0x04C11DB7, 0xFFFFFFFF, 0, False, False, 0x0376E6E7),
    ("AIXM", 0x814141AB, 0, 0, False, False, 0x3010BF7F),
]


@pytest.fixture
def engine():
    json, p4info = compiled("crc")
    with Engine(Program.from_text(json.read_text(), p4info.read_text())) as engine:
        engine.add_port(1)
        engine.add_port(2)
        yield engine


def hashes(engine):
    """(crc16_custom, crc32_custom) of the text."""
    engine.rx(1, TEXT + bytes(6), 0)
    ((_, frame),) = engine.poll(0)
    return int.from_bytes(frame[9:11], "big"), int.from_bytes(frame[11:15], "big")


def named(engine, width):
    return next(name for name, bits in engine.custom_crcs().items() if bits == width)


def test_they_begin_as_the_usual_ones(engine):
    assert hashes(engine) == (0xBB3D, 0xCBF43926)


@pytest.mark.parametrize("width, place, row", [(16, 0, r) for r in CRC16] + [(32, 1, r) for r in CRC32])
def test_the_check_values_of_the_catalogue(engine, width, place, row):
    _, polynomial, initial, final, into, out, check = row
    before = hashes(engine)
    name = named(engine, width)
    engine.crc_set(name, polynomial, initial, final, reflect_data=into, reflect_remainder=out)
    now = hashes(engine)
    assert now[place] == check
    assert now[1 - place] == before[1 - place], "the other one stays"


def test_a_wrong_name_or_a_wide_parameter_is_refused(engine):
    for name, polynomial in (("nothing", 1), (named(engine, 16), 1 << 16)):
        with pytest.raises(EngineError):
            engine.crc_set(name, polynomial, 0, 0, reflect_data=False, reflect_remainder=False)
    assert hashes(engine) == (0xBB3D, 0xCBF43926)
