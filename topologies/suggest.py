"""`did you mean`: the nearest accepted word for a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, accepted: Iterable[str]) -> str:
    """` (did you mean 'k'?)` with a leading space, or nothing when no accepted word is near."""
    near = difflib.get_close_matches(str(word), list(accepted), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
