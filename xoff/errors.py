"""The one exception that the command line prints as a sentence."""

from __future__ import annotations


class XoffError(Exception):
    """Something the person at the keyboard can act on; its text is the whole message."""
