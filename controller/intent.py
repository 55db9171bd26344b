"""What one switch is meant to hold: plain data, from which its P4Runtime entities are derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topologies.plan import ClassPolicy, FabricPlan, LoadBalancing, SwitchPlan


@dataclass(frozen=True)
class SwitchIntent:
    """The plan of one switch with what live operations have changed since. Never mutated: operations replace it."""

    plan: FabricPlan
    switch: SwitchPlan
    timestamp_hz: int
    routes: Mapping[str, tuple[int, ...]]
    """Prefix to its candidate ports, before cordoning."""
    policies: Mapping[int, ClassPolicy]
    balance: LoadBalancing
    class_map: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(egress port, class) to the class that packets have from there on."""
    cordoned: frozenset[int] = frozenset()
    """Ports that groups avoid where they can."""

    @staticmethod
    def of_plan(plan: FabricPlan, switch: SwitchPlan, timestamp_hz: int) -> SwitchIntent:
        """What the plan says, nothing changed."""
        return SwitchIntent(
            plan=plan,
            switch=switch,
            timestamp_hz=timestamp_hz,
            routes={route.prefix: route.ports for route in switch.routes},
            policies=plan.classes,
            balance=plan.load_balancing,
        )

    def candidates(self, prefix: str) -> tuple[int, ...]:
        """The ports that traffic to `prefix` may take now: those not cordoned, or all where none is left."""
        ports = self.routes[prefix]
        return tuple(port for port in ports if port not in self.cordoned) or ports

    def lossless_classes(self) -> tuple[int, ...]:
        """Classes that PFC protects; 7 carries the PFC frames themselves and is never paused."""
        return tuple(cls for cls, policy in sorted(self.policies.items()) if policy.lossless and cls != 7)
