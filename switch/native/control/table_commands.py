"""Commands about tables: entries added, changed, deleted and printed as simple_switch_CLI does."""

from __future__ import annotations

from switch.native.binding import Entry
from switch.native.control.command_base import CommandBase, Lines, named
from switch.native.control.literals import (
    TOP_PRIORITY,
    LiteralError,
    key,
    key_text,
    number,
    octets,
    plain,
    shown_kind,
    value,
)
from switch.native.control.profile_text import dumped, profile_of
from switch.native.program import Action, KeyField, Table


class TableCommands(CommandBase):
    """Tables and their entries."""

    def do_table_add(self, name: str, action: str, *words: str) -> Lines:
        """table_add TABLE ACTION KEY… => [PARAMETER…] [PRIORITY]"""
        table = self._table(name)
        if "=>" not in words:
            raise LiteralError("the key ends with =>")
        split = words.index("=>")
        texts, parameters = list(words[:split]), list(words[split + 1 :])
        priority = self._priority(table, parameters)
        chosen = action_of(table, action)
        arguments = arguments_of(chosen, parameters)
        elements = key(table, texts)
        handle = self._engine.table_add(table.name, elements, chosen.name, arguments, priority)
        self._switch.table_changed(table.name)
        shown = "\t".join(
            key_text(field, element, brief=True) for field, element in zip(table.key, elements, strict=True)
        )
        return [
            f"Adding entry to {table.match_type} match table {name}",
            f"{'match key:':20} {shown}",
            f"{'action:':20} {action}",
            f"{'runtime data:':20} {_runtime_data(chosen, arguments)}",
            f"Entry has been added with handle {handle}",
        ]

    def do_table_set_default(self, name: str, action: str, *parameters: str) -> Lines:
        """table_set_default TABLE ACTION [PARAMETER…]"""
        table = self._table(name)
        chosen = action_of(table, action)
        arguments = arguments_of(chosen, list(parameters))
        self._engine.table_default(table.name, chosen.name, arguments)
        self._switch.table_changed(table.name)
        return [
            f"Setting default action of {name}",
            f"{'action:':20} {action}",
            f"{'runtime data:':20} {_runtime_data(chosen, arguments)}",
        ]

    def do_table_reset_default(self, name: str) -> Lines:
        """table_reset_default TABLE"""
        table = self._table(name)
        self._engine.table_default_reset(table.name)
        self._switch.table_changed(table.name)
        return []

    def do_table_modify(self, name: str, action: str, handle: str, *words: str) -> Lines:
        """table_modify TABLE ACTION HANDLE [=>] [PARAMETER…]"""
        table = self._table(name)
        chosen = action_of(table, action)
        arguments = arguments_of(chosen, [word for word in words if word != "=>"])
        at = self._entry(table, handle).handle
        self._engine.table_modify(table.name, at, chosen.name, arguments)
        self._switch.table_changed(table.name)
        return [f"Modifying entry {at} for {table.match_type} match table {name}"]

    def do_table_delete(self, name: str, handle: str) -> Lines:
        """table_delete TABLE HANDLE"""
        table = self._table(name)
        at = self._entry(table, handle).handle
        self._engine.table_delete(table.name, at)
        self._switch.table_changed(table.name)
        return [f"Deleting entry {at} from {name}"]

    def do_table_delete_match(self, name: str, *words: str) -> Lines:
        """table_delete_match TABLE KEY… [PRIORITY]"""
        table = self._table(name)
        at = self._by_key(table, list(words)).handle
        self._engine.table_delete(table.name, at)
        self._switch.table_changed(table.name)
        return [f"Deleting entry {at} from {name}"]

    def do_table_clear(self, name: str) -> Lines:
        """table_clear TABLE"""
        table = self._table(name)
        self._engine.table_clear(table.name)
        self._switch.table_changed(table.name)
        return []

    def do_table_num_entries(self, name: str) -> Lines:
        """table_num_entries TABLE"""
        return [str(self._engine.table_stats(self._table(name).name)["entries"])]

    def do_table_set_timeout(self, name: str, handle: str, milliseconds: str) -> Lines:
        """table_set_timeout TABLE HANDLE MILLISECONDS"""
        table = self._table(name)
        entry, timeout = self._entry(table, handle), number(milliseconds, "timeout")
        self._engine.entry_timeout(table.name, entry.handle, timeout * 1_000_000)
        self._switch.table_changed(table.name, timeout_of=(entry.handle, timeout * 1_000_000))
        return [f"Setting a {timeout} ms timeout for entry {entry.handle}"]

    def do_table_dump(self, name: str) -> Lines:
        """table_dump TABLE"""
        table = self._table(name)
        lines = ["==========", "TABLE ENTRIES"]
        for entry in self._engine.table_entries(table.name):
            lines += ["**********", *self._entry_lines(table, entry)]
        profile = profile_of(self._engine, table)
        lines += [] if profile is None else dumped(self._engine, profile)
        lines += ["==========", "Dumping default entry"]
        default = self._engine.table_default_get(table.name)
        reference = self._engine.table_default_reference(table.name)
        if reference is not None:
            lines.append(f"Index: {'group' if reference[0] else 'member'}({reference[1]})")
        else:
            lines.append(
                "EMPTY" if default is None else _entry_text(action_of(table, default[0]), default[1])
            )
        return [*lines, "=========="]

    def do_table_dump_entry(self, name: str, handle: str) -> Lines:
        """table_dump_entry TABLE HANDLE"""
        table = self._table(name)
        return self._entry_lines(table, self._entry(table, handle))

    def do_table_dump_entry_from_key(self, name: str, *words: str) -> Lines:
        """table_dump_entry_from_key TABLE KEY… [PRIORITY]"""
        table = self._table(name)
        return self._entry_lines(table, self._by_key(table, list(words)))

    def _priority(self, table: Table, words: list[str]) -> int:
        """Take BMv2's priority off the words, as the engine counts it."""
        if not table.ranked:
            return 0
        if not words:
            raise LiteralError(f"entries of table {table.name} need a priority, the smaller the more urgent")
        priority = number(words.pop(), "priority")
        if not 0 <= priority < TOP_PRIORITY:
            raise LiteralError(f"priority {priority} is not in 0..{TOP_PRIORITY - 1}")
        return TOP_PRIORITY - priority

    def _entry(self, table: Table, handle: str) -> Entry:
        at = number(handle, "handle")
        for entry in self._engine.table_entries(table.name):
            if entry.handle == at:
                return entry
        raise LiteralError(f"table {table.name} has no entry with handle {at}")

    def _by_key(self, table: Table, words: list[str]) -> Entry:
        priority = self._priority(table, words)
        entry = self._engine.table_find(table.name, key(table, words), priority)
        if entry is None:
            raise LiteralError(f"table {table.name} has no entry with this key")
        return entry

    def _entry_lines(self, table: Table, entry: Entry) -> Lines:
        width = max([20, *(len(_shown_name(field)) for field in table.key)])
        lines = [f"Dumping entry {entry.handle:#x}", "Match key:"]
        for field, element in zip(table.key, entry.key, strict=True):
            shown = key_text(field, element, brief=False)
            lines.append(f"* {_shown_name(field):{width}}: {shown_kind(field.kind):10}{shown}")
        if table.ranked:
            rank = table.entries[entry.handle].rank if entry.const else TOP_PRIORITY - entry.priority
            lines.append(f"Priority: {rank}")
        if entry.action is not None:
            lines.append(_entry_text(action_of(table, entry.action), entry.args))
        elif entry.member is not None:
            lines.append(f"Index: member({entry.member})")
        else:
            lines.append(f"Index: group({entry.group})")
        return lines


def action_of(table: Table, name: str) -> Action:
    actions = {action.name: action for action in table.actions}
    return actions[named(actions, name, f"action of table {table.name}")]


def arguments_of(action: Action, texts: list[str]) -> tuple[int, ...]:
    """An action's arguments from one text per parameter."""
    if len(texts) != len(action.params):
        raise LiteralError(
            f"action {action.name} takes {len(action.params)} parameters, {len(texts)} are given"
        )
    return tuple(value(text, width, name) for text, (name, width) in zip(texts, action.params, strict=True))


def _shown_name(field: KeyField) -> str:
    return f"{field.header}.{field.field}" if field.field else field.name


def _runtime_data(action: Action, arguments: tuple[int, ...]) -> str:
    return "\t".join(octets(a, width, ":") for a, (_, width) in zip(arguments, action.params, strict=True))


def _entry_text(action: Action, arguments: tuple[int, ...]) -> str:
    data = ", ".join(plain(argument) for argument in arguments)
    return f"Action entry: {action.name} - {data}"


def table_text(table: Table) -> str:
    fields = ",\t".join(f"{field.name}({field.kind}, {field.width})" for field in table.key)
    return f"{table.name:30} [implementation={table.profile}, mk={fields}]"


def action_text(action: Action) -> str:
    parameters = ",\t".join(f"{name}({width})" for name, width in action.params)
    return f"{action.name:30} [{parameters}]"
