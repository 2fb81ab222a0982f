"""Asks for a place, and offers it back before the growth is over."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pliant.apgas import Place, define_malleable_handler, offer_places, places, request_places, run

PATIENCE_S = 40.0


class Hasty:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def pre_grow(self, count: int) -> None:
        pass

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:  # noqa: ARG002
        self.asked.append(f"came {[place.id for place in new]}")
        offer_places(count)

    def pre_shrink(self, count: int) -> Sequence[Place]:
        return places()[-count:]

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:  # noqa: ARG002
        self.asked.append(f"left {[place.id for place in removed]}")


def main() -> str:
    hasty = Hasty()
    define_malleable_handler(hasty)
    request_places(1)
    limit = time.monotonic() + PATIENCE_S
    while len(hasty.asked) < 2 and time.monotonic() < limit:
        time.sleep(0.01)
    return " ".join(hasty.asked)


if __name__ == "__main__":
    run(main)
