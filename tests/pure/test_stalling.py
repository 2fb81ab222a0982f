"""Where a rank is that makes no step: the innermost line of its program, once."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from pliant.job import environment
from pliant.model.errors import PliantError
from pliant.mpi import stalling
from pliant.mpi.stalling import Place, Stalling, of_the_program, places


def test_the_place_is_the_innermost_line_that_is_of_no_library() -> None:
    program = Place("/home/me/wave.py", 7, "step")
    libraries = [
        Place(str(Path(stalling.__file__).with_name("wait.py")), 1, "request"),
        Place(os.__file__, 1, "read"),
    ]
    assert of_the_program(iter([*libraries, program, Place("/home/me/main.py", 3, "main")])) == program
    assert of_the_program(iter(libraries)) is None
    here = next(places(sys._getframe()))
    assert str(here).startswith("test_stalling.py, line ")
    assert str(here).endswith(": here = next(places(sys._getframe()))")


def looked(steps: list[int]) -> list[int]:
    """The steps that are told of, where a thread that looks sees these, one after the other."""
    told: list[int] = []
    over = threading.Event()
    left = iter(steps)

    class Told(Stalling):
        def _tell(self, step: int) -> None:
            told.append(step)
            over.set()

    def step() -> int:
        try:
            return next(left)
        except StopIteration:
            over.set()
            return -1

    made = Told(lambda: 0, step, 1e-3)
    assert over.wait(10)
    made.end()
    return told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([5] * 5, [5]),
        ([5] * 20, [5]),
        ([5] * 4, []),
        ([1, 2, 3, 4] * 5, []),
        ([-1] * 20, []),
        ([1, 1, 2, 2, 2, 2, 2, 3], [2]),
    ],
)
def test_a_step_that_lasts_is_told_of_once(steps: list[int], told: list[int]) -> None:
    assert looked(steps) == told


def test_it_is_told_of_while_the_program_waits_for_the_reader_of_its_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while os.write(writing, bytes(1 << 16)):
            pass
    os.set_blocking(writing, True)
    made = Stalling(lambda: 0, lambda: 7, 3600.0)
    tells = threading.Thread(target=made._tell, args=(7,))
    with os.fdopen(writing, "w") as full:
        full.write("unread")
        monkeypatch.setattr(sys, "stdout", full)
        tells.start()
        tells.join(5)
        said = not tells.is_alive()
        monkeypatch.undo()
        os.read(reading, 1 << 20)
        tells.join(5)
    os.close(reading)
    made.end()
    assert said
    assert "rank 0 has been in step 7 for 3600 s" in capsys.readouterr().err


def test_the_time_is_read_from_the_environment() -> None:
    assert environment.stall_s({}) == 600
    assert environment.stall_s({"PLIANT_STALL_S": "0"}) == 0
    assert environment.stall_s({"PLIANT_STALL_S": "2.5"}) == 2.5
    for text in ("-1", "long", "nan", "inf"):
        with pytest.raises(PliantError, match="must be a number of seconds, or 0 for never"):
            environment.stall_s({"PLIANT_STALL_S": text})
