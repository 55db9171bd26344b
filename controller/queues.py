"""Queues: class limits, ECN and PFC of every port, and the timer that keeps pauses alive."""

from __future__ import annotations

from math import inf

import finsy as fy
from finsy.p4entity import P4EntityList

from controller.fixedpoint import byte_ticks, pause_ticks, red_slope
from controller.intent import SwitchIntent
from switch.device import LOOP_PORT
from switch.link import PFC_QUANTUM_BITS
from topologies.plan import CLASSES, ClassPolicy, FabricPlan, PortPlan, SwitchPlan

PFC_SESSION = 1
"""Clone session of p4src/constants.p4."""
VISITS_PER_PAUSE = 4
"""The timer visits each port this often while one XOFF lasts, so that two lost or late laps do no harm."""


def entities(intent: SwitchIntent) -> list[P4EntityList]:
    """Everything the queueing stages hold."""
    result: list[P4EntityList] = [
        fy.P4CloneSessionEntry(PFC_SESSION, replicas=[LOOP_PORT]),
        fy.P4TableEntry(
            "timer",
            action=fy.P4TableAction("set_timer", ports=max(port.number for port in intent.switch.ports)),
            is_default_action=True,
        ),
    ]
    for port in intent.switch.ports:
        result += _port(intent, port)
        for cls, policy in sorted(intent.policies.items()):
            result += _class(intent, port, cls, policy)
    return result


def _port(intent: SwitchIntent, port: PortPlan) -> list[fy.P4TableEntry]:
    rate = intent.wall_rate(port)
    lossless = intent.lossless_classes()
    source = intent.plan.telemetry.mode == "edge" and port.kind == "host"
    quanta = {
        f"quanta{cls}": intent.policies[cls].pause_quanta if cls in lossless else 0 for cls in range(CLASSES)
    }
    here = fy.P4TableMatch(port=port.number)
    return [
        fy.P4TableEntry(
            "ingress_port",
            match=here,
            action=fy.P4TableAction(
                "set_ingress_port",
                mac=port.mac,
                pause_ticks=pause_ticks(rate, intent.timestamp_hz),
                pfc_mask=sum(1 << cls for cls in lossless if (port.number, cls) not in intent.unpausable),
                int_every=intent.plan.telemetry.sample_every if source else 0,
            ),
        ),
        fy.P4TableEntry(
            "pause_frame", match=here, action=fy.P4TableAction("set_pause_frame", mac=port.mac, **quanta)
        ),
        fy.P4TableEntry(
            "timer_port",
            match=here,
            action=fy.P4TableAction("visit", ticks_per_byte=byte_ticks(rate, intent.timestamp_hz)),
        ),
    ]


def _class(intent: SwitchIntent, port: PortPlan, cls: int, policy: ClassPolicy) -> list[fy.P4TableEntry]:
    here = fy.P4TableMatch(**{"port": port.number, "class": cls})
    lossless = policy.lossless and cls != 7
    shut = (port.number, cls) in intent.shut  # a lossy queue without room
    result = [
        fy.P4TableEntry(
            "egress_class",
            match=here,
            action=fy.P4TableAction(
                "set_egress_class",
                lossless=int(lossless and not shut),
                limit=0 if shut else policy.queue_limit_bytes,
            ),
        )
    ]
    if lossless:
        result.append(
            fy.P4TableEntry(
                "ingress_class",
                match=here,
                action=fy.P4TableAction(
                    "set_ingress_class",
                    lossless=1,
                    xoff=policy.xoff_bytes,
                    xon=policy.xon_bytes,
                    limit=policy.xoff_bytes + policy.headroom_bytes,
                ),
            )
        )
    if policy.ecn_kmax_bytes > 0:
        result.append(
            fy.P4TableEntry(
                "red",
                match=here,
                action=fy.P4TableAction(
                    "set_red",
                    kmin=policy.ecn_kmin_bytes,
                    kmax=policy.ecn_kmax_bytes,
                    slope=red_slope(policy),
                ),
            )
        )
    return result


def required_timer_hz(plan: FabricPlan, switch: SwitchPlan) -> float:
    """Laps per second of the running clock with which this switch's pauses are refreshed well before they expire.

    One lap visits one port number; the shortest pause is the smallest `pause_quanta` of a lossless class on the
    fastest port. 0 when no class is lossless (telemetry's utilisation then needs a rate of the user's choice).
    """
    quanta = [policy.pause_quanta for policy in plan.classes.values() if policy.lossless]
    if not quanta:
        return 0.0
    shortest = min(
        (min(quanta) * PFC_QUANTUM_BITS / plan.wall_rate(port.rate_bps) for port in switch.ports), default=inf
    )
    return VISITS_PER_PAUSE * max(port.number for port in switch.ports) / shortest
