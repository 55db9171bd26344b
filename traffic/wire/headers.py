"""Numbers of the wire formats: opcodes, syndromes, offsets, ports (IB specification 9.2 to 9.5, RoCEv2 annex A17)."""

from __future__ import annotations

from enum import IntEnum

ROCE_PORT = 4791
ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_MAC_CONTROL = 0x8808
PROTOCOL_UDP = 17

ETHERNET_BYTES = 14
IPV4_BYTES = 20
IPV6_BYTES = 40
UDP_BYTES = 8
BTH_BYTES = 12
RETH_BYTES = 16
IMMDT_BYTES = 4
AETH_BYTES = 4
DETH_BYTES = 8
ATOMICETH_BYTES = 28
ATOMICACKETH_BYTES = 8
CNP_PAYLOAD_BYTES = 16
ICRC_BYTES = 4

CE = 0b11
ECT0 = 0b10
NOT_ECT = 0b00


class Opcode(IntEnum):
    """BTH opcodes of the RC transport, and the CNP."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_LAST_IMM = 0x03
    SEND_ONLY = 0x04
    SEND_ONLY_IMM = 0x05
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMM = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMM = 0x0B
    READ_REQUEST = 0x0C
    READ_RESPONSE_FIRST = 0x0D
    READ_RESPONSE_MIDDLE = 0x0E
    READ_RESPONSE_LAST = 0x0F
    READ_RESPONSE_ONLY = 0x10
    ACKNOWLEDGE = 0x11
    ATOMIC_ACKNOWLEDGE = 0x12
    COMPARE_SWAP = 0x13
    FETCH_ADD = 0x14
    CNP = 0x81


class Syndrome(IntEnum):
    """AETH syndromes (IB specification table 45 and 46)."""

    ACK_UNLIMITED = 0x1F
    """ACK with the credit count that means: no end-to-end flow control."""
    NAK_PSN_SEQUENCE = 0x60
    NAK_INVALID_REQUEST = 0x61
    NAK_REMOTE_ACCESS = 0x62
    NAK_REMOTE_OPERATIONAL = 0x63
    NAK_INVALID_RD_REQUEST = 0x64


SYNDROME_KIND_MASK = 0x60
SYNDROME_KIND_ACK = 0x00
SYNDROME_KIND_RNR = 0x20
SYNDROME_KIND_NAK = 0x60

PSN_MASK = 0xFFFFFF
PSN_HALF = 0x800000


def psn_distance(psn: int, reference: int) -> int:
    """How far `psn` (24 bits) is ahead of `reference` (any integer), -2**23 to 2**23 - 1."""
    distance = (psn - reference) & PSN_MASK
    return distance - (PSN_MASK + 1) if distance & PSN_HALF else distance
