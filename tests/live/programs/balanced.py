"""Counts the tasks of a tree over places that come and go: ``balanced.py MARK DEPTH [SECONDS_A_TASK [WORD]]``. The word is
``resilient``, or a file: from when that is there tasks take no time."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Self

from pliant.apgas import glb, run

HURRY = Path(sys.argv[4] if len(sys.argv) > 4 else "resilient")


class Count:
    def __init__(self) -> None:
        self.tasks = 0
        self.marks = 0

    def merge(self, other: Self) -> None:
        self.tasks += other.tasks
        self.marks ^= other.marks


class Tree:
    def __init__(self, todo: list[tuple[int, int]], task_s: float) -> None:
        self._todo, self._task_s = todo, task_s
        self._seen = Count()

    @property
    def tasks(self) -> int:
        return len(self._todo)

    @property
    def is_empty(self) -> bool:
        return not self._todo

    @property
    def is_splittable(self) -> bool:
        return len(self._todo) > 1

    def process(self, n: int) -> bool:
        for _ in range(n):
            if not self._todo:
                break
            mark, depth = self._todo.pop()
            self._seen.tasks += 1
            self._seen.marks ^= mark
            if self._task_s and not HURRY.exists():
                time.sleep(self._task_s)
            for child in range(2 + mark % 3 if depth else 0):
                self._todo.append(
                    ((mark * 6364136223846793005 + child * 1442695040888963407 + 1) % 2**63 >> 7, depth - 1)
                )
        return bool(self._todo)

    def split(self, take_all: bool) -> Tree:  # noqa: FBT001
        half = 0 if take_all else len(self._todo) // 2
        # The oldest tasks have most below them.
        other = Tree(self._todo[: len(self._todo) - half], self._task_s)
        del self._todo[: len(self._todo) - half]
        return other

    def merge(self, bag: Tree) -> None:
        self._todo += bag._todo
        self._seen.merge(bag._seen)

    def submit(self, result: Count) -> None:
        result.merge(self._seen)
        self._seen = Count()


def main() -> str:
    mark, depth = int(sys.argv[1]), int(sys.argv[2])
    task_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    outcome = glb.run(
        Tree([(mark, depth)], task_s),
        Count(),
        settings=glb.Settings(grain=4, resilient="resilient" in sys.argv[4:]),
    )
    print(json.dumps({"tasks": outcome.result.tasks, "places": sorted(outcome.statistics)}), flush=True)
    return f"{outcome.result.tasks} {outcome.result.marks}"


if __name__ == "__main__":
    print("result", run(main))
