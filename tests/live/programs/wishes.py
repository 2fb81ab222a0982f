"""A program that asks for places and gives them back by itself; its handler writes down what it is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pliant.apgas import Place, at, define_malleable_handler, here, offer_places, places, request_places, run

PATIENCE_S = 30.0


class Notes:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def pre_shrink(self, count: int) -> Sequence[Place]:
        self.asked.append(f"pre_shrink {count}")
        return places()[-count:]

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:
        self.asked.append(f"post_shrink {count} {[place.id for place in removed]}")

    def pre_grow(self, count: int) -> None:
        self.asked.append(f"pre_grow {count}")

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:  # noqa: ARG002
        self.asked.append(f"post_grow {count} {[place.id for place in new]}")


def wait_for(what: str, true: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > limit:
            raise TimeoutError(f"{what} has not come about: there are {len(places())} places")
        time.sleep(0.01)


def main() -> str:
    notes = Notes()
    define_malleable_handler(notes)
    request_places(2)
    wait_for("a growth to 3", lambda: len(places()) == 3)
    seen = [at(place, lambda: here().id) for place in places()]
    offer_places(1)
    wait_for("the end of a shrink", lambda: notes.asked[-1].startswith("post_shrink"))
    return f"{seen} {notes.asked}"


if __name__ == "__main__":
    run(main)
