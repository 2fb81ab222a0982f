"""docs/programming.md: its programs are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import BatchRun, Page, job

PAGE = Page("programming.md")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    with PAGE.shell(tmp_path) as run:
        yield run


@pytest.mark.long
def test_the_commands_give_the_same_result_each(shell: Callable[[str], list[str]]) -> None:
    assert set(PAGE.programs) == {"rod.py", "count.py", "wave.py", "phases.py", "turns.py", "evolving.toml"}
    alone, ranks, scheduled, by_itself, _ = PAGE.commands
    [result] = shell(alone)
    assert shell(ranks) == shell(scheduled) == shell(by_itself) == [result]


@pytest.mark.long
def test_the_other_programs_give_the_same_result_alone_and_in_company(
    shell: Callable[[str], list[str]], start: Callable[..., BatchRun], tmp_path: Path
) -> None:
    words = {name: f"python {tmp_path / name}" for name in ("count.py", "wave.py", "phases.py", "turns.py")}
    jobs = [job(name, line, "{ min = 1, max = 2 }", verify=line) for name, line in words.items()]
    run = start("nodes = 5", *jobs)
    for line in words.values():
        assert shell(f"mpiexec -n 2 {line}") == shell(line)
    assert [each["verified"] for each in run.finish().values()] == [True] * 4


@pytest.mark.long
def test_the_batch_of_evolving_jobs_gives_the_results_of_serial_runs(
    shell: Callable[[str], list[str]],
) -> None:
    serial = [
        line.split('"')[1] for line in PAGE.programs["evolving.toml"].splitlines() if "--serial" in line
    ]
    assert shell(PAGE.commands[-1]) == [said for line in serial for said in shell(line)]
