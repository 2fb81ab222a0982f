"""Long work without a terminal says a line now and then, whatever the command."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest
from rich.console import Console

from pliant.terminal import working
from pliant.terminal.working import EVERY_S, SELDOM_S, Working, silence_s

SOURCE = Path(working.__file__).parents[1]
SOON = (
    "from pliant.terminal import working; working.FIRST_S = 0.0; working.LOOK_S = 0.01; working.BAR_S = 0.0; "
)
PATIENCE_S = 60.0


class Heard(io.StringIO):
    """What is written, and whether something was."""

    def __init__(self) -> None:
        super().__init__()
        self.something = Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        self.something.set()
        return written


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_S", "BAR_S"):
        monkeypatch.setattr(working, name, 0.0)
    monkeypatch.setattr(working, "LOOK_S", 0.01)


@pytest.mark.usefixtures("_soon")
def test_work_that_never_comes_back_to_say_so_is_not_silent() -> None:
    heard = Heard()
    with Working("simulating", 400, "jobs", console=Console(file=heard, force_terminal=False)):
        assert heard.something.wait(PATIENCE_S)
    assert re.fullmatch(r"pliant: simulating: 0 of 400 jobs, \d+ ms\n", heard.getvalue())


@pytest.mark.usefixtures("_soon")
def test_each_part_of_the_work_has_its_lines_and_a_pause_has_none() -> None:
    heard = Heard()
    with Working("reading", console=Console(file=heard, force_terminal=False)) as work:
        assert heard.something.wait(PATIENCE_S)
        work.pause()
        heard.something.clear()
        assert not heard.something.wait(0.1)
        work.begin("drawing", 3)
        work.advance()
        assert heard.something.wait(PATIENCE_S)
    first, last = heard.getvalue().splitlines()
    assert first.startswith("pliant: reading: ")
    assert re.fullmatch(r"pliant: drawing: [01] of 3, .*", last)


@pytest.mark.usefixtures("_soon")
def test_a_terminal_gets_a_bar_that_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    heard = Heard()
    with Working("simulating", 4, "jobs", console=Console(file=heard, force_terminal=True)) as work:
        work.reach(2)
        deadline = time.monotonic() + PATIENCE_S
        while "2/4" not in heard.getvalue() and time.monotonic() < deadline:
            heard.something.wait(0.01)
    assert "pliant:" not in heard.getvalue()
    assert "2/4" in heard.getvalue()
    assert "0/100" not in heard.getvalue()


def test_a_terminal_that_cannot_draw_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(working, "FIRST_S", 0.0)
    heard = Heard()
    with Working("simulating", 4, "jobs", console=Console(file=heard, force_terminal=True)) as work:
        work.reach(2)
        assert heard.something.wait(PATIENCE_S)
    assert heard.getvalue().startswith("pliant: simulating:")


def test_who_cannot_be_written_to_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Heard):
        def write(self, text: str) -> int:
            super().write(text)
            raise BrokenPipeError

    monkeypatch.setattr(working, "FIRST_S", 0.0)
    gone = Gone()
    with Working("simulating", console=Console(file=gone)) as work:
        assert gone.something.wait(PATIENCE_S)
        work.advance()


def test_what_is_to_go_is_told_by_what_has_taken_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    work = Working("simulating", 400, "jobs")
    work.reach(100)
    assert work.line(125.0) == "simulating: 100 of 400 jobs, 25.0 s, about 75.0 s to go"
    work.reach(7, 8)
    assert work.line(107.0) == "simulating: 7 of 8 jobs, 7.00 s, about 1.00 s to go"
    work.begin("reading", unit="lines")
    assert work.line(101.0) == "reading: 1.00 s"
    work.advance(1200)
    assert work.line(101.0) == "reading: 1,200 lines, 1.00 s"


def test_lines_come_more_seldom_where_work_takes_long() -> None:
    assert [silence_s(elapsed) for elapsed in (0.0, 99.0, 300.0, 86400.0)] == [
        EVERY_S,
        EVERY_S,
        30.0,
        SELDOM_S,
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("simulate lublin:3000 --nodes 64 --policy easy", "simulating: [0-9,]+ of 3,000 jobs"),
        ("simulate lublin:300 --nodes 64 --seeds 3 --workers 1", "simulating: [0-9] of 3 simulations"),
        ("simulate lublin:300 --nodes 64 --policy easy --report {0}/r.html", "drawing the report"),
        ("plan data --rows 90000000 --sources 4000 --targets 5000 --json", "planning"),
        ("plan shrink --groups n[0-1500]=4 --nodes 700", "planning"),
        ("bench places --seeds 2 --workers 1", "trying: [0-9] of 2 computations"),
    ],
)
def test_commands_say_how_far_they_have_come(words: str, told: str, tmp_path: Path) -> None:
    code = f"{SOON}from pliant.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, *words.format(tmp_path).split()],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert re.search(rf"^pliant: {told}", ran.stderr, re.MULTILINE), ran.stderr
    assert "pliant: " not in ran.stdout


def test_all_commands_tell_by_the_same_way() -> None:
    """Who measures, reproduces or plans has it; nobody draws a bar of their own, which is silent in a pipe."""
    own = [str(path) for path in SOURCE.rglob("*.py") if "rich.progress" in path.read_text(encoding="utf-8")]
    assert own == [working.__file__]
    beside = {"bench_machines.py", "bench_bursts.py"}  # parts of bench.py, which has it
    tell = re.compile(r"\bWorking\(|over_seeds\(")
    silent = [
        path.name
        for kind in (
            "bench*",
            "reproduce*",
            "plan_*",
            "simulate.py",
            "calibrate.py",
            "doctor.py",
            "launch.py",
        )
        for path in (SOURCE / "cli").glob(kind if kind.endswith(".py") else f"{kind}.py")
        if path.name not in beside and not tell.search(path.read_text(encoding="utf-8"))
    ]
    assert silent == []
