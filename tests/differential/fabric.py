"""fabric.p4 as the controller programs it, for a comparison in which packets go somewhere."""

from __future__ import annotations

from pathlib import Path
from random import Random

import finsy as fy
from finsy.proto import p4r

from controller import device as controller_device
from controller.intent import SwitchIntent
from controller.reconcile import updates
from tests.fabric import frames as f
from tests.fabric.plans import host_ip, host_mac, port_mac, star
from topologies.plan import IntPolicy

TIMESTAMP_HZ = 10**6
"""BMv2's timestamps are microseconds."""
PORTS = 7


def is_fabric(source: Path) -> bool:
    """Whether a program is the project's own."""
    return source.name == "fabric.p4" and source.parent.name == "p4src"


def fabric_updates(json: Path, p4info: Path) -> list[p4r.Update]:
    """What the controller writes to a switch with seven hosts."""
    plan = star(PORTS, rate_bps=10**11, telemetry=IntPolicy(mode="host"))
    intent = SwitchIntent.of_plan(plan, plan.switches[0], TIMESTAMP_HZ)
    desired = fy.p4entity.encode_entities(controller_device.entities(intent), fy.P4Schema(p4info, json))
    return list(updates([], desired))


def fabric_frames(random: Random) -> list[tuple[int, bytes]]:
    """(port, frame): what hosts send through the switch that `fabric_updates` programs."""
    made = []
    for source in range(1, PORTS + 1):
        for _ in range(12):
            target = random.randrange(1, PORTS + 2)  # one more than there are
            payload = random.randbytes(random.choice([0, 4, 100]))
            opcode = random.choice([0x04, 0x0A, 0x11, 0x81])
            transport = f.udp(
                random.getrandbits(16), f.ROCE_PORT, f.bth(opcode, psn=random.getrandbits(24)) + payload
            )
            if random.random() < 0.3:
                stack = f.int_headers(instructions=random.choice([0x8000, 0xF800, 0xDC00]), hop_ml=5)
                transport = f.udp(77, f.INT_PORT, stack + f.bth() + payload)
            marks = {"dscp": random.choice([0, 24, 24, 48, 63]), "ecn": random.randrange(4)}
            kind = 0x0800
            if random.random() < 0.2:
                packet = f.ipv6(
                    "fd00::1", f"fd00::{target}", transport, hop_limit=random.choice([1, 2, 64]), **marks
                )
                kind = 0x86DD
            else:
                packet = f.ipv4(
                    host_ip(source), host_ip(target), transport, ttl=random.choice([1, 2, 64]), **marks
                )
            frame = f.ethernet(port_mac(source), host_mac(source), kind, packet)
            if random.random() < 0.2:
                frame = frame[:12] + bytes.fromhex("81006005") + frame[12:]
            made.append((source, frame))
        made.append((source, f.pfc({3: 0})))
    return made
