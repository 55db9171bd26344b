"""What a table entry runs or refers to: P4Runtime's `TableAction` put into the engine, and back."""

from __future__ import annotations

from finsy.proto import p4r

from switch.native.binding import Engine, Entry
from switch.native.p4runtime.actions import call_of, message_of
from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import Table, named_action
from switch.native.p4runtime.keykinds import to_program
from switch.native.p4runtime.matching import Key
from switch.native.p4runtime.oneshot import OneShot
from switch.native.p4runtime.profiles import Profiles
from switch.native.p4runtime.translation import Translation


class EntryActions:
    """The actions of entries; every method is to be called in a batch of the engine."""

    def __init__(self, engine: Engine, translation: Translation, profiles: Profiles) -> None:
        self._engine = engine
        self._translation = translation
        self._profiles = profiles

    def add(
        self, table: Table, key: Key, priority: int, action: p4r.TableAction
    ) -> tuple[int, p4r.TableAction, OneShot | None]:
        """Put an entry into the engine: its handle, its action in canonical form, its one-shot set.

        Raises P4RuntimeError, EngineError.
        """
        key = to_program(key, self._engine.program.tables[table.name])
        if self._kind(table, action) == "action":
            name, arguments, kept = self._call(table, action)
            return self._engine.table_add(table.name, key, name, arguments, priority), kept, None
        reference, kept, one_shot = self._reference(table, action)
        return (
            self._engine.table_add_indirect(table.name, key, priority=priority, **reference),
            kept,
            one_shot,
        )

    def replace(
        self, table: Table, handle: int, action: p4r.TableAction
    ) -> tuple[p4r.TableAction, OneShot | None]:
        """Give an entry another action; returns it in canonical form and its one-shot set. Raises as `add`."""
        if self._kind(table, action) == "action":
            name, arguments, kept = self._call(table, action)
            self._engine.table_modify(table.name, handle, name, arguments)
            return kept, None
        reference, kept, one_shot = self._reference(table, action)
        self._engine.table_modify_indirect(table.name, handle, **reference)
        return kept, one_shot

    def set_default(self, table: Table, action: p4r.TableAction) -> p4r.TableAction:
        """Set the default action; returns it in canonical form. Raises as `add`."""
        if table.profile_id:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the default of an indirect table is fixed")
        self._kind(table, action)
        name, arguments, kept = self._call(table, action, default=True)
        self._engine.table_default(table.name, name, arguments)
        return kept

    def of_engine(self, table: Table, entry: Entry) -> p4r.TableAction:
        """The action of an entry that was not written over P4Runtime; raises P4RuntimeError."""
        action = p4r.TableAction()
        if entry.action is not None:
            action.action.CopyFrom(self.named(table, entry.action, entry.args))
        elif entry.member is not None:
            action.action_profile_member_id = self._profiles.member_id(table.profile_id, entry.member)
        elif entry.group is not None:
            action.action_profile_group_id = self._profiles.group_id(table.profile_id, entry.group)
        return action

    def named(self, table: Table, name: str, arguments: tuple[int, ...]) -> p4r.Action:
        """The message of an action by the program's name; raises P4RuntimeError when P4Info does not list it."""
        return message_of(
            named_action(table.actions, name, f"table {table.name}"), arguments, self._translation
        )

    @staticmethod
    def _kind(table: Table, action: p4r.TableAction) -> str:
        kind = action.WhichOneof("type")
        if kind is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the entry has no action")
        if (kind == "action") == bool(table.profile_id):
            wanted = "a member, a group or an action set" if table.profile_id else "an action"
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: an entry takes {wanted}, not {kind}")
        return kind

    def _call(
        self, table: Table, action: p4r.TableAction, *, default: bool = False
    ) -> tuple[str, tuple[int, ...], p4r.TableAction]:
        call, arguments = call_of(
            table.actions, action.action, self._translation, where=table.name, default=default
        )
        kept = p4r.TableAction()
        kept.action.CopyFrom(message_of(call, arguments, self._translation))
        return call.name, arguments, kept

    def _reference(
        self, table: Table, action: p4r.TableAction
    ) -> tuple[dict[str, int], p4r.TableAction, OneShot | None]:
        """What the engine's entry refers to, the canonical action, and the one-shot set that was made for it."""
        kept = p4r.TableAction()
        kept.CopyFrom(action)
        kind = action.WhichOneof("type")
        if kind == "action_profile_member_id":
            member = self._profiles.member_number(table.profile_id, action.action_profile_member_id)
            return {"member": member}, kept, None
        if kind == "action_profile_group_id":
            group = self._profiles.group_number(table.profile_id, action.action_profile_group_id)
            return {"group": group}, kept, None
        one_shot = self._profiles.add_one_shot(
            table.profile_id, table.actions, action.action_profile_action_set
        )
        kept.action_profile_action_set.CopyFrom(one_shot.message)
        return {"group": one_shot.group}, kept, one_shot
