"""What the NIC puts on the wire and reads from it, against scapy, a hardware capture and the formula itself."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from scapy.contrib.mac_control import MACControlClassBasedFlowControl
    from scapy.contrib.roce import AETH, BTH, CNPPadding, cnp
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether
    from scapy.packet import Packet, Raw

from traffic.wire import pfc, telemetry
from traffic.wire.headers import PSN_MASK, psn_distance
from traffic.wire.icrc import frame_icrc
from traffic.wire.int_layers import IntHop, IntMd, IntShim
from traffic.wire.layers import DETH, RETH, AtomicAckETH, AtomicAETH, AtomicETH, ImmDt
from traffic.wire.parse import FrameReader
from traffic.wire.prototype import data_frame
from traffic.wire.template import FlowTemplate

MAC_A, MAC_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
ADDRESSES = {4: ("10.0.0.1", "10.0.1.2"), 6: ("fd00::1", "fd00::1:2")}
CONNECTX_CNP = bytes.fromhex(
    "e41d2dab2bc2 7cfe90643b32 0800 45c2003c718c400040119161 0a001101 0a001201"
    "0000 12b7 0028 0000  8100ffff40000118 00000000" + 16 * "00" + "82fd002a"
)
"""A CNP captured from a ConnectX-4 Lx (in scapy's regression tests, test/contrib/roce.uts)."""


def reference_icrc(frame: bytes) -> int:
    """Annex A17.3.3 bit by bit: no table, no library; the CRC of Ethernet over the masked packet."""
    six = frame[14] >> 4 == 6
    packet = bytearray(b"\xff" * 8 + frame[14:-4])
    if six:
        packet[8] |= 0x0F
        packet[9] = packet[10] = packet[11] = 0xFF
        packet[15] = 0xFF
        udp = 8 + 40
    else:
        packet[9] = packet[16] = packet[18] = packet[19] = 0xFF
        udp = 8 + 20
    packet[udp + 6] = packet[udp + 7] = 0xFF
    packet[udp + 8 + 4] = 0xFF
    register = 0xFFFFFFFF
    for byte in packet:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def carried_icrc(frame: bytes) -> int:
    """The ICRC in a frame, as the number whose least significant byte travels first."""
    return int.from_bytes(frame[-4:], "little")


def underlay(version: int, tos: int = 24 << 2 | 2, sport: int = 0xC123) -> Packet:
    src, dst = ADDRESSES[version]
    if version == 4:
        network: Packet = IP(src=src, dst=dst, tos=tos, ttl=64, flags="DF", id=0)
    else:
        network = IPv6(src=src, dst=dst, tc=tos, hlim=64)
    return Ether(src=MAC_A, dst=MAC_B) / network / UDP(sport=sport, dport=4791, chksum=0)


def template(version: int, dscp: int = 24, ecn: int = 2, qpn: int = 0x123456) -> FlowTemplate:
    src, dst = ADDRESSES[version]
    return FlowTemplate(
        data_frame(MAC_A, MAC_B, src), remote_ip=dst, remote_qpn=qpn, source_port=0xC123, dscp=dscp, ecn=ecn
    )


def reader(version: int) -> FrameReader:
    """The reader of the host that `underlay` sends to."""
    import ipaddress

    return FrameReader(ipaddress.ip_address(ADDRESSES[version][1]).packed)


def test_the_icrc_of_a_cnp_captured_from_hardware_is_what_we_compute() -> None:
    assert frame_icrc(CONNECTX_CNP) == carried_icrc(CONNECTX_CNP) == reference_icrc(CONNECTX_CNP)


def test_a_cnp_captured_from_hardware_is_read() -> None:
    read = FrameReader(bytes((10, 0, 18, 1)))
    assert read.read(CONNECTX_CNP)
    assert (read.opcode, read.dqpn, read.source_ip) == (0x81, 0x118, bytes((10, 0, 17, 1)))


@pytest.mark.parametrize("version", [4, 6])
@given(payload=st.binary(min_size=0, max_size=70), qpn=st.integers(0, PSN_MASK), psn=st.integers(0, PSN_MASK))
@settings(max_examples=25, deadline=None)
def test_the_icrc_agrees_with_scapy_and_with_the_formula(
    version: int, payload: bytes, qpn: int, psn: int
) -> None:
    frame = bytes(underlay(version) / BTH(opcode=1, dqpn=qpn, psn=psn) / Raw(payload))
    assert frame_icrc(frame) == carried_icrc(frame) == reference_icrc(frame)


@pytest.mark.parametrize("version", [4, 6])
def test_the_icrc_ignores_exactly_what_may_change_on_the_way(version: int) -> None:
    frame = bytes(underlay(version) / BTH(opcode=1, dqpn=5, psn=6) / Raw(b"payload!"))
    network = 14
    udp = network + (20 if version == 4 else 40)
    bth = udp + 8
    if version == 4:
        variant = {network + 1, network + 8, network + 10, network + 11}
    else:
        variant = {network + 1, network + 2, network + 3, network + 7}
    variant |= {udp + 6, udp + 7, bth + 4}
    for offset in range(14, len(frame) - 4):
        changed = bytearray(frame)
        changed[offset] ^= 0x08 if version == 6 and offset == network else 0x01
        same = frame_icrc(bytes(changed)) == frame_icrc(frame)
        if offset == network:  # the version decides which formula applies
            continue
        assert same == (offset in variant), offset


@pytest.mark.parametrize("version", [4, 6])
@given(
    length=st.integers(1, 300),
    opcode=st.sampled_from([0x00, 0x01, 0x02, 0x04, 0x07]),
    dscp=st.integers(0, 63),
    ecn=st.integers(0, 3),
    qpn=st.integers(0, PSN_MASK),
)
@settings(max_examples=40, deadline=None)
def test_a_patched_frame_is_the_frame_that_scapy_builds(
    version: int, length: int, opcode: int, dscp: int, ecn: int, qpn: int
) -> None:
    from zlib import crc32

    from traffic.wire.template import LE32

    pad = -length & 3
    payload = bytes(range(256))[:length].ljust(length, b"x") + bytes(pad)
    head = template(version, dscp, ecn, qpn).head(opcode, len(payload), pad=pad)
    body = (77).to_bytes(4, "big") + payload
    ours = head.data + body + LE32.pack(crc32(body, head.icrc))
    theirs = underlay(version, dscp << 2 | ecn) / BTH(opcode=opcode, padcount=pad, dqpn=qpn, psn=77)
    assert ours == bytes(theirs / Raw(payload))


@pytest.mark.parametrize("version", [4, 6])
def test_acks_and_cnps_are_the_frames_that_scapy_builds(version: int) -> None:
    flow = template(version)
    ack = bytes(underlay(version) / BTH(opcode=0x11, dqpn=0x123456, psn=9) / AETH(syndrome=0x1F, msn=300))
    assert flow.acknowledge(9, 0x1F, 300) == ack
    assert flow.cnp() == bytes(underlay(version) / cnp(0x123456))


@pytest.mark.parametrize("version", [4, 6])
@given(
    opcode=st.integers(0, 255),
    psn=st.integers(0, PSN_MASK),
    qpn=st.integers(0, PSN_MASK),
    ack=st.integers(0, 1),
    ecn=st.integers(0, 3),
    payload=st.binary(max_size=80),
)
@settings(max_examples=40, deadline=None)
def test_what_scapy_builds_is_read_back(
    version: int, opcode: int, psn: int, qpn: int, ack: int, ecn: int, payload: bytes
) -> None:
    bth = BTH(opcode=opcode, psn=psn, dqpn=qpn, ackreq=ack)
    read = reader(version)
    assert read.read(bytes(underlay(version, 24 << 2 | ecn) / bth / Raw(payload)))
    assert (read.opcode, read.psn, read.dqpn, read.ack_request, read.ecn) == (opcode, psn, qpn, ack, ecn)
    assert read.frame[read.body : read.end] == payload


LAYERS: list[tuple[int, list[Packet]]] = [
    (0x00, []),
    (0x01, []),
    (0x02, []),
    (0x03, [ImmDt(data=7)]),
    (0x04, []),
    (0x05, [ImmDt(data=7)]),
    (0x06, [RETH(va=1, rkey=2, dmalen=3)]),
    (0x07, []),
    (0x08, []),
    (0x09, [ImmDt(data=7)]),
    (0x0A, [RETH(va=1, rkey=2, dmalen=3)]),
    (0x0B, [RETH(va=1, rkey=2, dmalen=3), ImmDt(data=7)]),
    (0x0C, [RETH(va=1, rkey=2, dmalen=3)]),
    (0x0D, [AETH(syndrome=0x1F, msn=3)]),
    (0x0E, []),
    (0x0F, [AETH(syndrome=0x1F, msn=3)]),
    (0x10, [AETH(syndrome=0x1F, msn=3)]),
    (0x11, [AETH(syndrome=0x1F, msn=3)]),
    (0x12, [AtomicAETH(syndrome=0x1F, msn=3), AtomicAckETH(original=9)]),
    (0x13, [AtomicETH(va=1, rkey=2, swap_or_add=3, compare=4)]),
    (0x14, [AtomicETH(va=1, rkey=2, swap_or_add=3, compare=4)]),
    (0x23, [ImmDt(data=7)]),
    (0x26, [RETH(va=1, rkey=2, dmalen=3)]),
    (0x2B, [RETH(va=1, rkey=2, dmalen=3), ImmDt(data=7)]),
    (0x64, [DETH(qkey=1, sqpn=2)]),
    (0x65, [DETH(qkey=1, sqpn=2), ImmDt(data=7)]),
    (0x81, [CNPPadding()]),
]
HEADER_BYTES = {ImmDt: 4, RETH: 16, AETH: 4, AtomicAETH: 4, AtomicAckETH: 8, AtomicETH: 28, DETH: 8}


def stacked(layers: list[Packet], payload: bytes = b"") -> Packet:
    """One packet of several layers and a payload."""
    packet: Packet = Raw(payload)
    for layer in reversed(layers):
        packet = layer / packet
    return packet


@pytest.mark.parametrize(("opcode", "layers"), LAYERS, ids=[f"{op:#x}" for op, _ in LAYERS])
def test_every_opcode_dissects_into_the_headers_of_the_specification(
    opcode: int, layers: list[Packet]
) -> None:
    payload = b"" if opcode in (0x0C, 0x11, 0x12, 0x13, 0x14, 0x81) else b"payload."
    packet = underlay(4) / BTH(opcode=opcode, dqpn=3, psn=4) / stacked([x.copy() for x in layers], payload)
    wire = bytes(packet)
    found = Ether(wire)[BTH].payload
    for layer in layers:
        assert type(found) is type(layer)
        assert found.fields == type(layer)(bytes(layer)).fields
        assert len(bytes(layer)) == HEADER_BYTES.get(type(layer), 16)
        found = found.payload
    assert bytes(found) == payload
    assert bytes(Ether(wire)) == wire


def test_a_pfc_frame_is_the_frame_that_scapy_builds() -> None:
    theirs = Ether(src=MAC_A, dst="01:80:c2:00:00:01") / MACControlClassBasedFlowControl(
        c3_enabled=1, c3_pause_time=0xFFFF, c6_enabled=1, c6_pause_time=5
    )
    ours = pfc.build(bytes.fromhex(MAC_A.replace(":", "")), {3: 0xFFFF, 6: 5})
    assert ours == bytes(theirs)
    assert len(ours) == 60
    assert pfc.parse(ours) == [(3, 0xFFFF), (6, 5)]


@given(quanta=st.dictionaries(st.integers(0, 7), st.integers(0, 0xFFFF)))
def test_a_pfc_frame_reads_back(quanta: dict[int, int]) -> None:
    assert dict(pfc.parse(pfc.build(bytes(6), quanta)) or ()) == quanta


def hop(node: int) -> Packet:
    return IntHop(
        node_id=node,
        queue_bytes=1000 + node,
        egress_timestamp=2**40 + node,
        tx_bytes=2**33 + node,
        rate_kbps=10_000 + node,
    )


def with_telemetry(version: int, inner: Packet, hops: int) -> bytes:
    """What arrives after `hops` switches have pushed: built by scapy around a packet that has its ICRC."""
    plain = bytes(underlay(version) / inner)
    offset = 42 if version == 4 else 62
    headers = IntShim() / IntMd(
        hop_words=7,
        instructions=telemetry.INSTRUCTIONS,
        ds_instructions=telemetry.DS_INSTRUCTIONS,
        domain_id=1,
        stack=[hop(node) for node in range(hops, 0, -1)],
        remaining_hops=8 - hops,
    )
    packet = underlay(version)
    packet[UDP].dport = telemetry.INT_UDP_PORT
    return bytes(packet / headers / Raw(plain[offset:]))


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("hops", [0, 1, 5])
def test_telemetry_is_taken_off_and_the_icrc_is_right_again(version: int, hops: int) -> None:
    inner = BTH(opcode=4, dqpn=3, psn=4, padcount=1) / Raw(b"seven b\0")
    read = reader(version)
    assert read.read(with_telemetry(version, inner, hops)), read.reason
    assert read.frame[read.body : read.end] == b"seven b"
    assert read.psn == 4
    plain = bytes(underlay(version) / inner)
    if (
        version == 4
    ):  # the header checksum that came is kept: it has been checked and the ICRC does not cover it
        assert read.frame[:24] + read.frame[26:] == plain[:24] + plain[26:]
    else:
        assert read.frame == plain
    assert read.telemetry is not None
    assert [h.node_id for h in telemetry.hops(read.telemetry)] == list(range(1, hops + 1))
    for node, found in enumerate(telemetry.hops(read.telemetry), 1):
        expected = (node, 1000 + node, 2**40 + node, 2**33 + node, (10_000 + node) * 1000)
        assert tuple(found) == expected


def test_a_frame_leaves_with_the_telemetry_headers_that_scapy_builds() -> None:
    inner = BTH(opcode=1, dqpn=0x123456, psn=0) / Raw(bytes(8))
    head = template(4).head(1, 8, shim=telemetry.headers(1))
    assert head.data == with_telemetry(4, inner, 0)[: len(head.data)]


def test_an_echo_carries_the_same_stack_with_no_hop_remaining() -> None:
    from traffic.nic.responder import echo_of

    shim = with_telemetry(4, BTH(opcode=4) / Raw(b"data"), 2)[42 : 42 + 16 + 56]
    echoed = IntShim(echo_of(shim))
    assert echoed[IntMd].remaining_hops == 0
    assert [h.node_id for h in echoed[IntMd].stack] == [2, 1]
    read = FrameReader(bytes((10, 0, 1, 2)))
    assert read.read(template(4).acknowledge(5, 0x1F, 6, echo_of(shim))), read.reason
    assert (read.opcode, read.psn) == (0x11, 5)
    assert read.telemetry is not None and telemetry.hops(read.telemetry) == telemetry.hops(shim)


def refusals() -> list[tuple[str, Any]]:
    good = bytes(underlay(4) / BTH(opcode=4, dqpn=3, psn=4) / Raw(b"data"))

    def patched(offset: int, value: bytes, checksum: bool = True) -> bytes:
        frame = bytearray(good)
        frame[offset : offset + len(value)] = value
        if checksum:
            from traffic.wire.template import ipv4_checksum

            frame[24:26] = b"\0\0"
            frame[24:26] = ipv4_checksum(bytes(frame[14:34])).to_bytes(2, "big")
        return bytes(frame)

    return [
        ("malformed", b""),
        ("malformed", good[:40]),
        ("malformed", good[:-1]),
        ("malformed", patched(16, b"\xff\xff")),
        ("malformed", patched(38, b"\x00\x09")),
        ("malformed", patched(14, b"\x46")),
        ("malformed", patched(20, b"\x20\x00")),
        ("malformed", patched(43, b"\x01")),
        ("ip_checksum", patched(22, b"\x01", checksum=False)),
        ("not_roce", patched(23, b"\x06")),
        ("not_roce", patched(36, b"\x00\x35")),
        ("not_roce", patched(12, b"\x08\x06")),
        ("not_for_us", patched(33, b"\x09")),
        ("icrc", patched(50, b"\xff")),
        ("icrc", patched(len(good) - 1, b"\x99")),
        ("malformed", patched(36, telemetry.INT_UDP_PORT.to_bytes(2, "big"))),
    ]


@pytest.mark.parametrize(("reason", "frame"), refusals())
def test_a_bad_frame_is_refused_with_its_reason(reason: str, frame: bytes) -> None:
    read = reader(4)
    assert not read.read(frame)
    assert read.reason == reason


@given(data=st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    for start in (b"", bytes(12) + b"\x08\x00\x45", bytes(12) + b"\x86\xdd\x60"):
        assert not reader(4).read(start + data)
        assert not reader(6).read(start + data)
    pfc.parse(data)
    telemetry.length_of(data, 0)


@given(
    cut=st.integers(0, 160),
    flips=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), max_size=4),
    hops=st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_a_damaged_frame_is_never_read_as_another_one(
    cut: int, flips: list[tuple[int, int]], hops: int
) -> None:
    whole = with_telemetry(4, BTH(opcode=4, dqpn=3, psn=4) / Raw(b"data"), hops)
    frame = bytearray(whole[: len(whole) - cut] if cut < len(whole) else b"")
    for offset, mask in flips:
        if offset < len(frame):
            frame[offset] ^= mask
    read = reader(4)
    if read.read(bytes(frame)):
        assert (read.opcode, read.dqpn, read.psn) == (4, 3, 4)
        assert read.frame[read.body : read.end] == b"data"


@given(reference=st.integers(0, 2**30), step=st.integers(-(2**23), 2**23 - 1))
def test_psn_distances_wrap_at_24_bits(reference: int, step: int) -> None:
    assert psn_distance((reference + step) & PSN_MASK, reference) == step
