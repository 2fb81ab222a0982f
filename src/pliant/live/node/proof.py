"""How the end of processes is brought about and proved: wait, look, kill, look again."""

from __future__ import annotations

import msgspec

from pliant.live.node.register import Key
from pliant.model.deadlines import AGENT_KILL_S, AGENT_TRACKERS_S

PATIENCE_S = 3600.0
"""The longest wait for what leaves by itself."""


class Removal(msgspec.Struct):
    """The removal of all processes of some groups of ``job``, or of all (None), and of whatever belongs to nobody.

    It waits until ``began`` is set, then scans, kills and scans again until nothing is found or AGENT_KILL_S are over.
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
        return self.began is not None and now > self.began + AGENT_KILL_S

    def is_patient(self, now: float) -> bool:
        return self.began is not None and now < self.began + AGENT_TRACKERS_S
