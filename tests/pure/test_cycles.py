"""What is counted over the cycles of a job that grows and shrinks."""

from __future__ import annotations

import mmap
import os

from pliant_lab.measure.cycles import Holds, Sample, growth, holds


def test_growth_is_of_the_process_that_grows_most_among_those_that_stay() -> None:
    samples = [
        Sample({1: Holds(10, 1000), 2: Holds(5, 500), 3: Holds(5, 500)}, 2),
        Sample({1: Holds(10, 1100), 2: Holds(7, 500), 4: Holds(99, 9000)}, 2),
        Sample({1: Holds(10, 1300), 2: Holds(6, 500), 5: Holds(99, 9000)}, 3),
    ]
    assert growth(samples) == {
        "cycles": 2, "processes_followed": 2, "processes_more": 0, "descriptors_more": 1,
        "memory_kb_a_cycle": 150.0, "shm_files_more": 1,
    }  # fmt: skip


def test_what_a_process_holds_is_what_it_has_opened_and_written() -> None:
    before = holds(os.getpid())
    assert before is not None
    ends = os.pipe()
    try:
        # Pages of its own: the heap may have some left that are resident.
        with mmap.mmap(-1, 8 << 20) as more:
            more.write(bytes([1]) * len(more))
            after = holds(os.getpid())
    finally:
        for end in ends:
            os.close(end)
    assert after is not None
    assert after.descriptors == before.descriptors + 2
    assert after.memory_kb >= before.memory_kb + (8 << 10) - 512
    assert holds(1 << 22) is None  # more than there can be
