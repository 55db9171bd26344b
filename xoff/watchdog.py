"""The watchdog of an experiment: what its `watchdog` key may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.watchdog import ACTIONS, SCOPES, WatchdogOptions
from xoff.errors import XoffError
from xoff.units import parse_time

KEYS = ("detection_time", "restoration_time", "poll_interval", "action", "scope")
DETECTION = "1ms"
"""Three times the longest pause at 100 Gb/s. SONiC's 200 ms are longer than most runs."""
POLLS_PER_DETECTION = 4
LEAST_POLL = "1us"
"""Between two readings of every switch's counters; a run that reads more often gets nowhere."""


def parse_watchdog(data: Mapping[str, Any], scale: float = 1.0) -> WatchdogOptions | None:
    """The options, times multiplied by `scale`; None for an empty mapping. XoffError says what is wrong.

    Restoration takes twice the detection time unless it says otherwise, as with `pfcwd start`.
    """
    if not data:
        return None
    for key in data:
        if key not in KEYS:
            raise XoffError(f"watchdog: there is no {key!r}; it takes {', '.join(KEYS)}.")
    for key, accepted in (("action", ACTIONS), ("scope", SCOPES)):
        if data.get(key, accepted[0]) not in accepted:
            raise XoffError(f"watchdog: {key} is one of {', '.join(accepted)}, not {data[key]!r:.60}.")
    try:
        detection = parse_time(data.get("detection_time", DETECTION))
        restoration = parse_time(data["restoration_time"]) if "restoration_time" in data else 2 * detection
        poll = (
            parse_time(data["poll_interval"]) if "poll_interval" in data else detection // POLLS_PER_DETECTION
        )
        if poll < parse_time(LEAST_POLL):
            key = "poll_interval" if "poll_interval" in data else "detection_time / 4"
            raise XoffError(f"{key} is at least {LEAST_POLL}")
        return WatchdogOptions(
            detection_ns=round(detection * scale),
            restoration_ns=round(restoration * scale),
            poll_ns=round(poll * scale),
            action=data.get("action", ACTIONS[0]),
            scope=data.get("scope", SCOPES[0]),
        )
    except (XoffError, ValueError) as error:
        raise XoffError(f"watchdog: {str(error).rstrip('.')}.") from None
