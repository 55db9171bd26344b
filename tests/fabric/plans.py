"""Small plans for tests: one switch in the middle of four hosts, and what the controller makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topologies.plan import (
    ClassPolicy,
    FabricPlan,
    HostPlan,
    IntPolicy,
    PortKind,
    PortPlan,
    Route,
    SwitchBalancing,
    SwitchPlan,
)

LOSSLESS = ClassPolicy(
    lossless=True, xoff_bytes=10_000, xon_bytes=5_000, headroom_bytes=20_000, pause_quanta=0xFFFF
)
LOSSY = ClassPolicy(lossless=False, queue_limit_bytes=8_000)


def port_mac(port: int) -> str:
    """MAC of a switch port."""
    return f"02:00:00:00:01:{port:02x}"


def host_mac(port: int) -> str:
    """MAC of the host at a port."""
    return f"02:00:00:00:02:{port:02x}"


def host_ip(port: int) -> str:
    """Address of the host at a port."""
    return f"10.0.0.{port}"


def star(
    ports: int = 4,
    *,
    rate_bps: int = 10**9,
    classes: dict[int, ClassPolicy] | None = None,
    groups: dict[str, tuple[int, ...]] | None = None,
    balance: SwitchBalancing = "ecmp",
    telemetry: IntPolicy | None = None,
    kinds: dict[int, PortKind] | None = None,
    seed: int = 0x1234_5678,
) -> FabricPlan:
    """One switch `s1` with a host on every port; `groups` are further prefixes with several candidate ports."""
    numbers = range(1, ports + 1)
    switch = SwitchPlan(
        name="s1",
        device_id=7,
        layer="node",
        ports=tuple(
            PortPlan(
                number, port_mac(number), f"h{number}", 0, host_mac(number), rate_bps, 0,
                (kinds or {}).get(number, "host"),
            )
            for number in numbers
        ),
        routes=(
            *(Route(f"{host_ip(number)}/32", (number,)) for number in numbers),
            *(Route(prefix, candidates) for prefix, candidates in (groups or {}).items()),
        ),
        hash_seed=seed,
    )  # fmt: skip
    hosts = tuple(
        HostPlan(f"h{n}", n - 1, host_mac(n), host_ip(n), "s1", n, port_mac(n), rate_bps, 0) for n in numbers
    )
    return FabricPlan(
        name="star",
        switches=(switch,),
        hosts=hosts,
        classes=classes if classes is not None else {3: LOSSLESS, 0: LOSSY},
        load_balancing=balance,
        telemetry=telemetry or IntPolicy(),
    )


def with_policy(plan: FabricPlan, cls: int, **changes: Any) -> FabricPlan:
    """The plan with fields of one class's policy replaced."""
    return replace(plan, classes={**plan.classes, cls: replace(plan.classes[cls], **changes)})
