"""What the world is there to find."""

from __future__ import annotations


class Violation(Exception):  # noqa: N818 - what the world is there to find
    """Something that must hold does not. ``kind`` is lost, run_twice, leaked, stuck or wrong."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind
