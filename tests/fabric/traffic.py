"""RoCE data frames between the hosts of a star plan, and what the switch must make of them."""

from __future__ import annotations

import struct

from tests.fabric import frames as f
from tests.fabric.plans import host_ip, host_mac, port_mac

HEADERS = 14 + 20 + 8 + 12


def data(
    src: int,
    dst: int,
    *,
    psn: int = 0,
    size: int = 500,
    dscp: int = 24,
    ecn: int = 2,
    sport: int = 1000,
    to: str | None = None,
    ttl: int = 64,
) -> bytes:
    """A RoCE data frame of `size` bytes from the host at port `src` to the one at `dst` (or to address `to`)."""
    payload = f.udp(sport, f.ROCE_PORT, f.bth(psn=psn) + bytes(size - HEADERS))
    packet = f.ipv4(host_ip(src), to or host_ip(dst), payload, dscp=dscp, ecn=ecn, ttl=ttl)
    return f.ethernet(port_mac(src), host_mac(src), 0x0800, packet)


def delivered(
    src: int, dst: int, *, out: int | None = None, ttl: int = 64, ecn: int = 2, **same: int
) -> bytes:
    """The frame that `data(src, dst, …)` must become on port `out` (default `dst`): MACs and TTL, nothing else."""
    frame = data(src, dst, ttl=ttl - 1, ecn=ecn, **same)
    port = out or dst
    return f.mac(host_mac(port)) + f.mac(port_mac(port)) + frame[12:]


def psn(frame: bytes) -> int:
    """Sequence number of a RoCE frame without telemetry."""
    return int(struct.unpack_from(">I", frame, 50)[0])


def ecn_of(frame: bytes) -> int:
    """ECN field of an IPv4 frame."""
    return frame[15] & 3
