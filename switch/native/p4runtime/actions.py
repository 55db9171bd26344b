"""Actions: P4Runtime's `Action` messages and the engine's (name, arguments)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from finsy.proto import p4r

from switch.native.p4runtime.errors import INVALID_ARGUMENT, PERMISSION_DENIED, P4RuntimeError
from switch.native.p4runtime.info import Action, ActionRef
from switch.native.p4runtime.translation import Translation


def call_of(
    actions: Mapping[int, ActionRef],
    message: p4r.Action,
    translation: Translation,
    *,
    where: str,
    default: bool,
) -> tuple[Action, tuple[int, ...]]:
    """The action and its arguments in declaration order.

    `default` says whether it is to be a table's default action. Raises P4RuntimeError.
    """
    ref = actions.get(message.action_id)
    if ref is None:
        names = ", ".join(sorted(known.action.name for known in actions.values()))
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{where} has no action with id {message.action_id:#x}; it has {names}"
        )
    action = ref.action
    if not (ref.in_default if default else ref.in_table):
        kind = "tableonly" if default else "defaultonly"
        raise P4RuntimeError(PERMISSION_DENIED, f"{where}: action {action.name} is @{kind}")
    given: dict[int, bytes] = {}
    known_ids = {param.id for param in action.params}
    for param in message.params:
        if param.param_id not in known_ids:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{where}: action {action.name} has no parameter with id {param.param_id}"
            )
        if param.param_id in given:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{where}: parameter {param.param_id} of {action.name} is given twice"
            )
        given[param.param_id] = param.value
    arguments = []
    for value in action.params:
        if value.id not in given:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{where}: parameter {value.name!r} of action {action.name} is missing"
            )
        arguments.append(translation.number(value, given[value.id], f"{where}: {action.name}'s parameter"))
    return action, tuple(arguments)


def message_of(action: Action, arguments: Sequence[int], translation: Translation) -> p4r.Action:
    """The canonical message."""
    message = p4r.Action(action_id=action.id)
    for value, argument in zip(action.params, arguments, strict=True):
        message.params.add(param_id=value.id, value=translation.data(value, argument))
    return message
