"""docs/how-to-malleable.md: its programs and commands are run, as a newcomer would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from harness import Page, until

PAGE = Page("how-to-malleable.md")
Shell = Callable[[str], list[str]]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with PAGE.shell(tmp_path) as run:
        yield run


@pytest.mark.long
def test_the_commands_print_what_the_rigid_program_does(shell: Shell) -> None:
    assert set(PAGE.programs) == {"rigid.py", "malleable.py"}
    rigid, *malleable = PAGE.commands[:4]
    [line] = shell(rigid)
    assert [shell(each) for each in malleable] == [[line]] * 3


@pytest.mark.long
def test_the_last_command_tells_a_plain_variable_that_the_loop_changes(shell: Shell, tmp_path: Path) -> None:
    program = (
        PAGE.programs["malleable.py"]
        .replace('job.value("moved", 0.0)', "0.0")
        .replace("moved.value", "moved")
    )
    (tmp_path / "malleable.py").write_text(program)
    alone, _, resized = PAGE.commands[1:4]
    assert shell(alone) != shell(resized)


@pytest.mark.long
def test_another_terminal_resizes_the_program(shell: Shell) -> None:
    first_terminal, queue, shrink, hand_back, alone = PAGE.commands[4:]
    said: list[str] = []
    thread = Thread(target=lambda: said.extend(shell(first_terminal)))
    thread.start()

    def has_size(size: int) -> bool:
        runs = json.loads("\n".join(shell(f"{queue} --json || echo '[]'")))  # none goes on yet
        return any(job["nodes"] == size for run in runs for job in run["jobs"])

    try:
        until(lambda: has_size(4), "4 nodes")
        assert "malleable" in "\n".join(shell(queue))
        shell(shrink)
        until(lambda: has_size(2), "2 nodes")
        shell(hand_back)
        until(lambda: has_size(4), "4 nodes again")
    finally:
        thread.join()
    assert said == shell(alone)
