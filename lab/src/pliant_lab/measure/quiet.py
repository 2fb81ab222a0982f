"""Whether others use the processors that something is to be measured on."""

from __future__ import annotations

import os
import time
from pathlib import Path

LOUD = 0.1
"""Others are taken for none if they use no more than this share of the processors."""
LOOK_S = 0.1
_IDLE = (3, 4)
"""Of a line of /proc/stat: idle, and waiting for disks."""


def busy(over_s: float = LOOK_S) -> float:
    """The share of this process' processors that somebody uses, looked at for so long; 0 where nobody says."""
    before = _times()
    time.sleep(over_s)
    spent = [after - earlier for after, earlier in zip(_times(), before, strict=False)]
    return 1.0 - sum(spent[each] for each in _IDLE) / sum(spent) if sum(spent) else 0.0


def _times() -> list[int]:
    """What all of these processors have spent on what, in ticks."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = [[int(word) for word in words] for name, *words in map(str.split, lines) if name in ours]
    return [sum(column) for column in zip(*rows, strict=True)]


class Quiet:
    """Waits for others to be quiet, ``budget_s`` in all at most. ``loud`` counts how often in vain."""

    def __init__(self, budget_s: float) -> None:
        self._left_s = budget_s
        self.loud = 0

    def wait(self) -> None:
        while busy() > LOUD:
            self._left_s -= LOOK_S
            if self._left_s <= 0:
                self.loud += 1
                return
