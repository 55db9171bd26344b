"""How soon a workload can be over: what its hosts have yet to receive, at the highest rate that any link has."""

from __future__ import annotations

from collections.abc import Sequence

from traffic.endpoint import Endpoint


class Outlook:
    """A bound that costs little: it follows one host, and looks for another when that one is nearly done."""

    WORTHWHILE_NS = 20_000
    """A shorter bound makes it look at all hosts."""

    def __init__(self, endpoints: Sequence[Endpoint], fastest_bps: int) -> None:
        """`fastest_bps`: what no link of a host exceeds, on the driving clock."""
        self._fastest = fastest_bps
        expected: dict[str, int] = {}
        for endpoint in endpoints:
            for send in endpoint.config.sends:
                expected[send.dst] = expected.get(send.dst, 0) + send.bytes
        self._hosts = [(endpoint, expected.get(endpoint.name, 0)) for endpoint in endpoints]
        self._followed = self._hosts[0] if self._hosts else None

    def not_before(self, now: int) -> int:
        """A time before which `finished` does not become true at every host."""
        if self._followed is None:
            return now
        least = self._needed_ns(*self._followed)
        if least < self.WORTHWHILE_NS:
            least, number = max((self._needed_ns(*host), i) for i, host in enumerate(self._hosts))
            self._followed = self._hosts[number]
        return now + least

    def _needed_ns(self, endpoint: Endpoint, expected: int) -> int:
        """Time on the link for the payload that has not come.

        What a reorder window keeps has come but is not counted as received, so there every byte that came is taken for
        payload.
        """
        nic, config = endpoint.nic, endpoint.config.nic
        come = nic.rx_bytes if config.transport.reorder_window else nic.bytes_received
        return max(0, expected - come) * 8 * 10**9 // max(self._fastest, config.receiver.drain_bps)
