"""The command's way in: ``pliant``, and ``python -m pliant``."""

from __future__ import annotations

import gc
import signal


def main() -> None:
    """Load the command and run it. A Ctrl-C while it loads ends it at once, and shows nobody where that was."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what is loaded stays
    from pliant.cli import main as run

    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
