"""What can go wrong on a rank of a malleable program."""

from __future__ import annotations

from pliant.model.errors import PliantError

REMEDY = "exchange the data of arrays by job.swap(a, b) in place of changing the variables, as in a, b = b, a"


class NotJoined(PliantError):  # noqa: N818 - a state of the rank rather than a fault
    """A newcomer asked for what it gets only when it is joined, on its first step."""

    def __init__(self, what: str, loop: int = 0) -> None:
        super().__init__(
            f"{what} is not available here: this rank joined in loop {loop + 1} of the block and has not reached it. "
            "Guard code between loops with `if job.joined:`, but begin each loop on all ranks"
            if loop
            else f"{what} is not there yet: this rank is a newcomer and is joined when its steps() loop begins, or by "
            "job.join() or its first job.check() where the program has a loop of its own; "
            "guard what comes before with `if job.fresh:`"
        )


class Undone(PliantError):  # noqa: N818 - the job goes on as it was
    """The newcomers of a resize are given up, and nothing of it has happened."""


class Released(SystemExit):
    """This rank's node has been given back: the program ends here, with exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)
