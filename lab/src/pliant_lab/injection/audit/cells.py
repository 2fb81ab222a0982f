"""Which cells of the table of resizes the records of a world have been through."""

from __future__ import annotations

from collections import Counter

from pliant.core import records as r
from pliant.protocol import resizing
from pliant_lab.injection.audit.violation import Violation


class Cells:
    """Which cells of the table of resizes the records have been through, and in which state each job is."""

    def __init__(self) -> None:
        self.visited: Counter[tuple[str, str]] = Counter()
        self.offered = self.done = self.slots = 0
        self._of_slots: set[int] = set()
        self._stage: dict[int, str] = {}

    def stage(self, job: int) -> str:
        return self._stage.get(job, resizing.NONE)

    def add(self, record: r.Record) -> None:
        match record:
            case r.ResizeOffered():
                self.offered += 1
                if record.slots:
                    self._of_slots.add(record.resize)
                self._move(record.job, "Offer")
            case r.ResizeAccepted():
                self._move(record.job, "Accept")
            case r.ResizeDeclined():
                self._move(record.job, "Decline")
            case r.ResizeWithdrawn():
                self._move(record.job, "Withdraw")
            case r.ResizeDone():
                self.done += 1
                self.slots += record.resize in self._of_slots
                self._move(record.job, "Done")
            case r.ResizeFailed():
                self._move(record.job, "Failed")
            case r.JobEnded() if record.job in self._stage:
                self._move(record.job, "End")
            case _:
                pass

    def _move(self, job: int, what: str) -> None:
        stage = self.stage(job)
        move = resizing.TABLE.get((stage, what))
        if move is None:
            raise Violation("wrong", f"job {job}: {what} in state {stage} of its resize")
        self.visited[stage, what] += 1
        if move.state == resizing.NONE:
            self._stage.pop(job, None)
        else:
            self._stage[job] = move.state
