"""The end of a run by a signal."""

from __future__ import annotations

import signal

from pliant.model.errors import PliantError


class Interrupted(PliantError):  # noqa: N818 - no error of anybody's
    """A signal ended the run; ``number`` is the signal's, and ``why`` says what is behind it, where that is known."""

    def __init__(self, number: int, why: str = "") -> None:
        name = signal.Signals(number).name
        super().__init__(f"ended by {name}{why and f', as {why}'}; all jobs were ended and cleaned up")
        self.number = number
        self.why = why or f"the run was ended by {name}"
