"""The `xoff` command, from its first instant on: Ctrl-C while Python still loads it ends it without a word."""

from __future__ import annotations

import signal


def main() -> None:
    """Load and run the command line. Until then there is nothing to clean up and nobody to say so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from xoff.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
