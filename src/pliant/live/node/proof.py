"""How the end of processes is brought about and proved: wait, look, kill, look again."""

from __future__ import annotations

import msgspec

from pliant.live.node.register import Key

KILL_S = 3.0
"""How long the kernel gets to remove a killed process before the node counts as not clean."""
TRACKERS_S = 1.0
"""How long resource trackers get to clean up after what was killed."""
AGAIN_S = 0.02
SCAN_S = KILL_S
"""How long a look through the process table may take."""
PATIENCE_S = 3600.0
"""The longest wait for what leaves by itself."""


class Removal(msgspec.Struct):
    """The removal of all processes of some groups of ``job``, or of all (None), and of whatever belongs to nobody.

    It waits until ``began`` is set, then scans, kills and scans again until nothing is found or KILL_S are over.
    """

    key: str
    job: int | None
    groups: frozenset[Key]
    kept: tuple[Key, ...] = ()
    """Groups that the order named as going on, known here or not."""
    began: float | None = None
    scanning: bool = False
    left: tuple[int, ...] = ()
    clean: bool = False

    def is_over(self, now: float) -> bool:
        return self.began is not None and now > self.began + KILL_S

    def is_patient(self, now: float) -> bool:
        return self.began is not None and now < self.began + TRACKERS_S
