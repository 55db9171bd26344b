"""Meters over P4Runtime: configurations, and the packets and bytes counted by colour.

A meter's rates are units per second and its bursts units: bytes or packets, as its type says. Packets are counted by
colour in both units whatever the meter measures.
"""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4i, p4r

from switch.native.binding import Engine
from switch.native.engine_types import MeterCounts
from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import Info, cells_of, find, selected


class Meters:
    """The indirect meters of one pipeline."""

    def __init__(self, info: Info, engine: Engine) -> None:
        self._info = info
        self._engine = engine
        self._configs: dict[tuple[int, int], p4r.MeterConfig] = {}
        """By meter and cell; a cell that is not here colours every packet green."""

    def write(self, update: int, entry: p4r.MeterEntry) -> None:
        """Configure one cell, or all when no index is given; without a configuration every packet is green.

        Raises P4RuntimeError, EngineError.
        """
        meter = find("meter", self._info.meters, entry.meter_id)
        name = meter.preamble.name
        if update != p4r.Update.MODIFY:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: a meter can only be modified")
        index, cells = cells_of(meter, entry.index if entry.HasField("index") else None)
        config = None
        if entry.HasField("config"):
            check_config(entry.config, meter.spec, name)
            config = p4r.MeterConfig()
            config.CopyFrom(entry.config)
        if entry.HasField("counter_data"):
            check_cleared(entry.counter_data, name)
            self._engine.meter_clear(name, index)
        self._engine.meter_set(name, index, None if config is None else rates_of(config))
        self._know(meter.preamble.id, cells, config)

    def adopt(self, name: str, index: int, rates: tuple[int, int, int, int]) -> None:
        """A meter was configured in the engine by other means: (cir, cburst, pir, pburst)."""
        for meter in self._info.meters.values():
            if meter.preamble.name == name:
                config = p4r.MeterConfig(cir=rates[0], cburst=rates[1], pir=rates[2], pburst=rates[3])
                self._know(meter.preamble.id, range(index, index + 1), config)

    def read(self, query: p4r.MeterEntry) -> Iterator[p4r.MeterEntry]:
        """The cells that the query selects; raises P4RuntimeError."""
        for meter in selected("meter", self._info.meters, query.meter_id):
            index, cells = cells_of(meter, query.index if query.HasField("index") else None)
            counts = []
            if query.HasField("counter_data"):
                counts = self._engine.meter_counts(meter.preamble.name, index)
            for place, cell in enumerate(cells):
                message = p4r.MeterEntry(meter_id=meter.preamble.id, index=p4r.Index(index=cell))
                config = self._configs.get((meter.preamble.id, cell))
                if config is not None:
                    message.config.CopyFrom(config)
                if counts:
                    message.counter_data.CopyFrom(counts_message(counts[place]))
                yield message

    def export(self) -> Iterator[p4r.MeterEntry]:
        """The cells that are configured, to MODIFY elsewhere."""
        for (meter_id, cell), config in self._configs.items():
            yield p4r.MeterEntry(meter_id=meter_id, index=p4r.Index(index=cell), config=config)

    def _know(self, meter_id: int, cells: range, config: p4r.MeterConfig | None) -> None:
        for cell in cells:
            if config is not None:
                self._engine.journal.set(self._configs, (meter_id, cell), config)
            elif (meter_id, cell) in self._configs:
                self._engine.journal.remove(self._configs, (meter_id, cell))


def check_config(config: p4r.MeterConfig, spec: p4i.MeterSpec, where: str) -> None:
    """Raises P4RuntimeError when the meter cannot have this configuration (P4Runtime, "MeterEntry")."""
    for name in ("cir", "cburst", "pir", "pburst", "eburst"):
        if getattr(config, name) < 0:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: {name} is negative")
    if spec.type == p4i.MeterSpec.TWO_RATE_THREE_COLOR:
        if config.eburst:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a two-rate meter has no eburst")
        if config.pir < config.cir:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{where}: the peak rate {config.pir} is below the committed rate {config.cir}",
            )
    elif config.pir != config.cir or config.pburst != config.cburst:
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{where}: a single-rate meter has pir = cir and pburst = cburst"
        )
    elif spec.type == p4i.MeterSpec.SINGLE_RATE_TWO_COLOR and config.eburst:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a two-colour meter has no eburst")
    elif config.eburst:
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{where}: v1model's meters have two rates; an excess burst cannot be kept"
        )


def rates_of(config: p4r.MeterConfig) -> tuple[int, int, int, int]:
    """(cir, cburst, pir, pburst) in units per second and units."""
    return config.cir, config.cburst, config.pir, config.pburst


def check_cleared(data: p4r.MeterCounterData, where: str) -> None:
    """Counts by colour can be written to zero only; raises P4RuntimeError."""
    for counter in (data.green, data.yellow, data.red):
        if counter.packet_count or counter.byte_count:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{where}: the counters of a meter's colours can only be set to 0"
            )


def counts_message(counts: MeterCounts) -> p4r.MeterCounterData:
    """The message of what a meter coloured."""
    green, yellow, red = (p4r.CounterData(packet_count=p, byte_count=b) for p, b in counts)
    return p4r.MeterCounterData(green=green, yellow=yellow, red=red)
