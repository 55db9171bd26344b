"""Commands about counters, registers and meters."""

from __future__ import annotations

from switch.native.control.command_base import CommandBase, Lines, named
from switch.native.control.controlled import Controlled
from switch.native.control.literals import LiteralError, number, value
from switch.native.program import Table


class StateCommands(CommandBase):
    """What a program keeps besides its tables."""

    def __init__(self, switch: Controlled) -> None:
        super().__init__(switch)
        self._meters: dict[tuple[str, int], tuple[tuple[float, int], ...]] = {}

    def do_counter_read(self, name: str, index: str) -> Lines:
        """counter_read COUNTER INDEX"""
        at = number(index, "index")
        table = self._direct_counter(name)
        if table is not None:
            packets, total = self._engine.entry_counter(table.name, at)
            first = [f"this is the direct counter for table {table.name}"]
        else:
            packets, total = self._engine.counter_read(named(self._program.counters, name, "counter"), at)
            first = []
        return [*first, f"{name}[{at}]= ({total} bytes, {packets} packets)"]

    def do_counter_write(self, name: str, index: str, packets: str, total: str) -> Lines:
        """counter_write COUNTER INDEX PACKETS BYTES"""
        at, count, size = number(index, "index"), number(packets, "packets"), number(total, "bytes")
        table = self._direct_counter(name)
        if table is not None:
            self._engine.entry_counter_set(table.name, at, count, size)
            return [f"writing to direct counter for table {table.name}", f"{name}[{at}] has been updated"]
        self._engine.counter_write(named(self._program.counters, name, "counter"), at, count, size)
        return [f"{name}[{at}] has been updated"]

    def do_counter_reset(self, name: str) -> Lines:
        """counter_reset COUNTER"""
        table = self._direct_counter(name)
        if table is not None:
            for entry in self._engine.table_entries(table.name):
                self._engine.entry_counter_set(table.name, entry.handle, 0, 0)
            return [f"this is the direct counter for table {table.name}"]
        counter = named(self._program.counters, name, "counter")
        for at in range(self._program.counters[counter].size):
            self._engine.counter_write(counter, at, 0, 0)
        return []

    def do_register_read(self, name: str, *index: str) -> Lines:
        """register_read REGISTER [INDEX]"""
        register = named(self._program.registers, name, "register")
        if len(index) > 1:
            raise LiteralError("one index at most")
        if index:
            at = number(index[0], "index")
            return [f"{name}[{at}]= {self._engine.register_read(register, at)}"]
        return [f"{name}= {', '.join(map(str, self._engine.register_read_all(register)))}"]

    def do_register_write(self, name: str, index: str, written: str) -> Lines:
        """register_write REGISTER INDEX VALUE"""
        register = named(self._program.registers, name, "register")
        found = value(written, self._program.registers[register].width, name)
        self._engine.register_write(register, number(index, "index"), found)
        self._switch.wake()
        return []

    def do_register_reset(self, name: str) -> Lines:
        """register_reset REGISTER"""
        self._engine.register_reset(named(self._program.registers, name, "register"))
        self._switch.wake()
        return []

    def do_meter_set_rates(self, name: str, index: str, *rates: str) -> Lines:
        """meter_set_rates METER INDEX RATE:BURST RATE:BURST (committed, peak; units per microsecond)"""
        self._set_meter(name, [number(index, "index")], rates)
        return []

    def do_meter_array_set_rates(self, name: str, *rates: str) -> Lines:
        """meter_array_set_rates METER RATE:BURST RATE:BURST"""
        meter = named(self._program.meters, name, "meter")
        self._set_meter(name, list(range(self._program.meters[meter].size)), rates)
        return []

    def do_meter_get_rates(self, name: str, index: str) -> Lines:
        """meter_get_rates METER INDEX"""
        meter, at = named(self._program.meters, name, "meter"), number(index, "index")
        rates = self._meters.get((meter, at), ())
        return [f"{i}: info rate = {rate}, burst size = {burst}" for i, (rate, burst) in enumerate(rates)]

    def _set_meter(self, name: str, indices: list[int], texts: tuple[str, ...]) -> None:
        meter = named(self._program.meters, name, "meter")
        try:
            pairs = [text.split(":") for text in texts]
            (committed, burst), (peak, peak_burst) = ((float(rate), int(size)) for rate, size in pairs)
        except ValueError:
            raise LiteralError("a meter takes two pairs RATE:BURST, committed and peak") from None
        rates = (round(committed * 1e6), burst, round(peak * 1e6), peak_burst)
        for at in indices:
            self._engine.meter_set(meter, at, rates)
            self._meters[meter, at] = ((committed, burst), (peak, peak_burst))
            self._switch.meter_changed(meter, at, rates)

    def _direct_counter(self, name: str) -> Table | None:
        """The table whose direct counter is called so. BMv2 JSON names it; so does the table itself here."""
        found = self._program.direct_counters.get(name)
        if found is None:
            matching = [n for n in self._program.direct_counters if n.endswith(f".{name}")]
            found = self._program.direct_counters[matching[0]] if len(matching) == 1 else None
        return None if found is None else self._program.tables[found]
