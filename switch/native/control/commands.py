"""The commands of simple_switch_CLI, on the native switch: scripts written for it keep working.

Names may be shortened to a suffix that is unique, as there (`ipv4_lpm` for `MyIngress.ipv4_lpm`). What a command
changes is seen by P4Runtime too.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable

from switch.native.binding import EngineError
from switch.native.control.command_base import Lines
from switch.native.control.controlled import ControlError, Controlled
from switch.native.control.copy_commands import CopyCommands
from switch.native.control.literals import LiteralError, number
from switch.native.control.parser_commands import ParserCommands
from switch.native.control.profile_commands import ProfileCommands
from switch.native.control.state_commands import StateCommands
from switch.native.control.table_commands import action_text, table_text
from switch.native.p4runtime.errors import P4RuntimeError

_PREFIX = "do_"


class Commands(ProfileCommands, StateCommands, CopyCommands, ParserCommands):
    """One switch's command line."""

    def __init__(self, switch: Controlled) -> None:
        super().__init__(switch)
        self._began = time.monotonic_ns()
        self._verbs: dict[str, Callable[..., Lines]] = {
            name[len(_PREFIX) :]: getattr(self, name) for name in dir(self) if name.startswith(_PREFIX)
        }

    def run(self, line: str) -> tuple[Lines, bool]:
        """Execute a command line: what to print, and whether it succeeded."""
        verb, *words = line.split("#", 1)[0].split() or [""]
        if not verb:
            return [], True
        command = self._verbs.get(verb)
        if command is None:
            return [f"Error: there is no command {verb}; `help` lists them"], False
        try:
            inspect.signature(command).bind(*words)
        except TypeError:
            return [f"Error: usage: {self._usage(verb)}"], False
        try:
            return command(*words), True
        except (LiteralError, ControlError, EngineError) as error:
            return [f"Error: {error}"], False
        except P4RuntimeError as error:
            return [f"Error: {error.message}"], False

    # ---- help and facts ----
    def do_help(self, *verbs: str) -> Lines:
        """help [COMMAND]"""
        unknown = [verb for verb in verbs if verb not in self._verbs]
        if unknown:
            raise LiteralError(f"there is no command {unknown[0]}")
        return [self._usage(verb) for verb in verbs or sorted(self._verbs)]

    def _usage(self, verb: str) -> str:
        return (self._verbs[verb].__doc__ or verb).splitlines()[0]

    def do_switch_info(self) -> Lines:
        """switch_info"""
        facts = {
            "device_id": self._engine.device_id,
            "elements_supported": "tables, action profiles, counters, meters, registers, multicast, clones",
            "target": "xoff native switch",
        }
        return [f"{name:20}: {fact}" for name, fact in facts.items()]

    def do_show_ports(self) -> Lines:
        """show_ports"""
        lines = [f"{'port #':^10}{'iface name':^20}{'status':^10}extra info", "=" * 50]
        for port, interface in sorted(self._switch.ports.items()):
            state = "UP" if self._engine.port_stats(port).up else "DOWN"
            lines.append(f"{port:^10}{interface or '-':^20}{state:^10}")
        return lines

    def do_port_add(self, interface: str, port: str) -> Lines:
        """port_add INTERFACE PORT"""
        self._switch.add_port(number(port, "port"), interface)
        return []

    def do_port_remove(self, port: str) -> Lines:
        """port_remove PORT"""
        self._switch.remove_port(number(port, "port"))
        return []

    def do_get_time_elapsed(self) -> Lines:
        """get_time_elapsed"""
        return [str((time.monotonic_ns() - self._began) // 1000)]

    def do_get_time_since_epoch(self) -> Lines:
        """get_time_since_epoch"""
        return [str(time.time_ns() // 1000)]

    def do_show_tables(self) -> Lines:
        """show_tables"""
        return [table_text(table) for table in self._program.tables.values()]

    def do_show_actions(self) -> Lines:
        """show_actions"""
        return sorted({action_text(action) for action in self._program.actions})

    def do_table_show_actions(self, name: str) -> Lines:
        """table_show_actions TABLE"""
        return sorted(action_text(action) for action in self._table(name).actions)

    def do_table_info(self, name: str) -> Lines:
        """table_info TABLE"""
        table = self._table(name)
        return [table_text(table), "*" * 80, *sorted(action_text(action) for action in table.actions)]

    # ---- queues ----
    def do_set_queue_depth(self, packets: str, *where: str) -> Lines:
        """set_queue_depth PACKETS [PORT [PRIORITY]]"""
        self._switch.set_queue(*_queue(where), limit_packets=number(packets, "packets"))
        return []

    def do_set_queue_rate(self, rate: str, *where: str) -> Lines:
        """set_queue_rate PACKETS_PER_SECOND [PORT [PRIORITY]]"""
        self._switch.set_queue(*_queue(where), rate_pps=number(rate, "rate"))
        return []


def _queue(words: tuple[str, ...]) -> tuple[int | None, int | None]:
    if len(words) > 2:
        raise LiteralError("a queue is given as PORT and PRIORITY")
    numbers = [number(word, what) for word, what in zip(words, ("port", "priority"), strict=False)]
    return numbers[0] if numbers else None, numbers[1] if len(numbers) > 1 else None
