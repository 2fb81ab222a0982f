"""Has a malleable handler until it is to be asked: it goes in the moment in between."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pliant.apgas import Place, define_malleable_handler, disable_malleable_handler, run
from pliant.apgas.malleable import handler

PATIENCE_S = 60.0


class Never:
    def pre_shrink(self, count: int) -> Sequence[Place]:
        raise AssertionError(count)

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:
        raise AssertionError(count, removed)

    def pre_grow(self, count: int) -> None:
        raise AssertionError(count)

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:
        raise AssertionError(count, continued, new)


def main() -> None:
    asking, without, asked = threading.Event(), threading.Event(), threading.Event()
    whole = handler.malleability()
    take_turn, on_change = whole.take_turn, whole.on_change

    def turn() -> handler.MalleableHandler:
        asking.set()
        assert without.wait(PATIENCE_S)
        try:
            return take_turn()
        finally:
            asked.set()

    def changed(on: bool) -> None:  # noqa: FBT001 - called by position
        if not on:
            without.set()
            assert asked.wait(PATIENCE_S)
        on_change(on)

    whole.take_turn, whole.on_change = turn, changed  # type: ignore[method-assign]
    define_malleable_handler(Never())
    assert asking.wait(PATIENCE_S)
    disable_malleable_handler()


if __name__ == "__main__":
    run(main)
