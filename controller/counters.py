"""Counters of the P4 program: which cells a switch uses, and the records their values become."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from controller.intent import SwitchIntent
from topologies.plan import CLASSES

DROP_REASONS = {
    1: "too_short",
    2: "malformed",
    3: "ip_checksum",
    4: "not_ip",
    5: "ip_options",
    6: "mac_control",
    7: "l2_destination",
    8: "ttl",
    9: "no_route",
    10: "unknown_port",
    13: "int_probe",
    14: "packet_out",
}
"""`DROP_…` of p4src/constants.p4. 11 and 12 are counted by class, as `queue` and `headroom`."""

ROCE_KINDS = ("roce_data", "roce_ack", "roce_nak", "roce_cnp")
INT_OUTCOMES = ("int_pushed", "int_hop_limit", "int_mtu", "int_skipped")


class Cell(NamedTuple):
    """One counter cell and the record it becomes: a `counter` record called `name`, or a `drop` record."""

    counter: str
    """Name in P4Info."""
    cell: int
    name: str
    """Name of the counter record, or the reason of the drop record."""
    port: int
    cls: int
    """-1 where the counter is not by class."""
    drop: bool = False

    def record(self, node: str, packets: int, bytes_: int) -> dict[str, Any]:
        """The record of this cell's values."""
        record: dict[str, Any] = {"kind": "drop" if self.drop else "counter", "node": node}
        record["reason" if self.drop else "name"] = self.name
        return {**record, "port": self.port, "class": self.cls, "packets": packets, "bytes": bytes_}


def pause_cells(port: int, cls: int) -> tuple[Cell, Cell, Cell]:
    """XOFF and XON frames received for a queue, and packets that it has sent."""
    queue = port * 8 + cls
    return (
        Cell("pfc_rx", queue * 2, "pfc_rx_xoff", port, cls),
        Cell("pfc_rx", queue * 2 + 1, "pfc_rx_xon", port, cls),
        Cell("tx", queue, "tx", port, cls),
    )


def cells(intent: SwitchIntent) -> Iterator[Cell]:
    """Every cell that this switch's ports and classes can count in."""
    lossless = intent.lossless_classes()
    yield Cell("laps", 0, "laps", -1, -1)
    for port in (port.number for port in intent.switch.ports):
        for cls in range(CLASSES):
            queue = port * 8 + cls
            yield Cell("rx", queue, "rx", port, cls)
            yield Cell("tx", queue, "tx", port, cls)
            yield Cell("queue_drops", queue, "queue", port, cls, drop=True)
            yield Cell("lost", queue, "lost", port, cls)
            if cls in intent.policies and intent.policies[cls].ecn_kmax_bytes > 0:
                yield Cell("ecn_marked", queue, "ecn_marked", port, cls)
        for cls in lossless:
            queue = port * 8 + cls
            yield Cell("headroom_drops", queue, "headroom", port, cls, drop=True)
            yield Cell("holds", queue, "holds", port, cls)
            yield Cell("pfc_tx", queue * 2, "pfc_tx_xoff", port, cls)
            yield Cell("pfc_tx", queue * 2 + 1, "pfc_tx_xon", port, cls)
            yield Cell("pfc_rx", queue * 2, "pfc_rx_xoff", port, cls)
            yield Cell("pfc_rx", queue * 2 + 1, "pfc_rx_xon", port, cls)
        yield Cell("pfc_ignored", port, "pfc_ignored", port, -1)
        for reason, name in DROP_REASONS.items():
            yield Cell("drops", port * 32 + reason, name, port, -1, drop=True)
        for kind, name in enumerate(ROCE_KINDS):
            yield Cell("roce", port * 4 + kind, name, port, -1)
        if intent.plan.telemetry.mode != "off":
            for outcome, name in enumerate(INT_OUTCOMES):
                yield Cell("int_hops", port * 4 + outcome, name, port, -1)
