"""What one switch is meant to hold: plain data, from which its P4Runtime entities are derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topologies.plan import ClassPolicy, FabricPlan, PortPlan, SwitchBalancing, SwitchPlan


@dataclass(frozen=True)
class SwitchIntent:
    """The plan of one switch with what live operations have changed since. Never mutated: operations replace it."""

    plan: FabricPlan
    switch: SwitchPlan
    timestamp_hz: int
    routes: Mapping[str, tuple[int, ...]]
    """Prefix to its candidate ports, before cordoning."""
    policies: Mapping[int, ClassPolicy]
    balance: SwitchBalancing
    class_map: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(egress port, class) to the class that packets have from there on."""
    cordoned: frozenset[int] = frozenset()
    """Ports that groups avoid where they can."""
    dead_ends: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Prefix to candidate ports that do not lead there now (`controller.rerouting`)."""
    rates: Mapping[int, int] = field(default_factory=dict)
    """Port to its rate, fabric bit/s, where it is not the planned one."""
    weights: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Prefix to candidate port to its weight, where they are not all alike (`controller.weights`)."""
    unpausable: frozenset[tuple[int, int]] = frozenset()
    """(port, class) whose received pauses are not obeyed."""
    shut: frozenset[tuple[int, int]] = frozenset()
    """(port, class) of egress queues that admit nothing."""

    @staticmethod
    def of_plan(plan: FabricPlan, switch: SwitchPlan, timestamp_hz: int) -> SwitchIntent:
        """What the plan says, nothing changed."""
        return SwitchIntent(
            plan=plan,
            switch=switch,
            timestamp_hz=timestamp_hz,
            routes={route.prefix: route.ports for route in switch.routes},
            policies=plan.classes,
            balance=plan.switch_balancing,
        )

    def candidates(self, prefix: str) -> tuple[int, ...]:
        """The ports that traffic to `prefix` may take now: those that lead there and are not cordoned.

        Where none is left: those that lead there, or all.
        """
        ports = self.routes[prefix]
        dead = self.dead_ends.get(prefix, frozenset())
        leading = tuple(port for port in ports if port not in dead) or ports
        return tuple(port for port in leading if port not in self.cordoned) or leading

    def members(self, prefix: str) -> tuple[int, ...]:
        """The candidates in the order in which a group takes them in turn, each as often as it weighs.

        Round by round, so that the turns of one port are apart.
        """
        ports = self.candidates(prefix)
        weights = self.weights.get(prefix)
        if weights is None:
            return ports
        rounds = max(weights.get(port, 1) for port in ports)
        return tuple(port for turn in range(rounds) for port in ports if weights.get(port, 1) > turn)

    def wall_rate(self, port: PortPlan) -> int:
        """What a port sends at, bit/s of the running clock."""
        return self.plan.wall_rate(self.rates.get(port.number, port.rate_bps))

    def lossless_classes(self) -> tuple[int, ...]:
        """Classes that PFC protects; 7 carries the PFC frames themselves and is never paused."""
        return tuple(cls for cls, policy in sorted(self.policies.items()) if policy.lossless and cls != 7)
