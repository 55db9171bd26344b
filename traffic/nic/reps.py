"""REPS, the sender's choice of entropy: Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load
Balancing and Failure Mitigation", arXiv 2407.21625, algorithms 1 and 2.

Every data packet carries an entropy, its UDP source port, which the switches hash onto a path. The ACK brings it back
with the word whether the packet was marked. Entropies of unmarked ACKs are used once more, oldest first; where none is
left a random one explores. After a loss the sender freezes: it explores no more, and uses the last good entropies over
and over, until `freezing_ns` have passed.

The paper leaves open what a slot holds that no ACK has filled; here the first ACK fills them all, so that a sender that
freezes early stays with what it knows to be good.
"""

from __future__ import annotations

from traffic.nic.config import FIRST_ENTROPY, RepsConfig

_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
"""Knuth's MMIX generator (The Art of Computer Programming, volume 2, 3.3.4); the high half is used."""
_MASK = (1 << 64) - 1


class Reps:
    """Entropies of one queue pair."""

    def __init__(self, config: RepsConfig, *, freezing_ns: int, seed: int) -> None:
        """`freezing_ns`: that of the configuration on the driving clock. `seed`: 64 bits, different for each flow."""
        self.explored = 0
        """Packets with a random entropy."""
        self.recycled = 0
        """Packets with one that an ACK brought back."""
        self.freezes = 0
        """Times that a loss ended exploration."""
        self.frozen = False
        self._entropies = config.entropies
        self._explore_packets = config.explore_packets
        self._freezing_ns = freezing_ns
        self._size = config.buffer
        self._buffer: list[int] = []
        """Good entropies; a ring, empty until the first ACK."""
        self._head = 0
        """Where the next good one is written; the `_valid` before it have not been used again yet."""
        self._valid = 0
        self._explore = 0
        """Packets that still explore, whatever the buffer holds."""
        self._frozen_until = 0
        self._random = seed

    def next_entropy(self) -> int:
        """UDP source port of the packet that starts now."""
        if self._explore or not self._buffer or not (self._valid or self.frozen):
            if self._explore:
                self._explore -= 1
            self.explored += 1
            self._random = (self._random * _MULTIPLIER + _INCREMENT) & _MASK
            return FIRST_ENTROPY + ((self._random >> 32) * self._entropies >> 32)
        self.recycled += 1
        if self._valid:
            at = (self._head - self._valid) % self._size
            self._valid -= 1
        else:
            at = self._head
            self._head = (at + 1) % self._size
        return self._buffer[at]

    def on_ack(self, entropy: int, marked: bool, now: int) -> None:
        """An ACK or NAK brought back the source port of a packet that arrived, and whether it had CE set."""
        if marked:
            return
        if not self._buffer:
            self._buffer = [entropy] * self._size
        self._buffer[self._head] = entropy
        self._head = (self._head + 1) % self._size
        if self._valid < self._size:
            self._valid += 1
        if self.frozen and now > self._frozen_until:
            self.frozen = False
            self._explore = self._explore_packets

    def on_failure(self, now: int) -> None:
        """A packet was lost: a NAK or a timeout says so."""
        if self._freezing_ns and not self.frozen and not self._explore:
            self.frozen = True
            self.freezes += 1
            self._frozen_until = now + self._freezing_ns
