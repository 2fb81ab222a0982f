"""Every block of code of docs/programming.md is run, so that the page cannot say what is not so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from harness import BatchRun, job

BIN = Path(sys.executable).parent
PAGE = (Path(__file__).parents[2] / "docs/programming.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = {text.split(maxsplit=2)[1].rstrip(":"): text for language, text in BLOCKS if language == "python"}
[COMMANDS] = [text for language, text in BLOCKS if language == "sh"]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    """Run a line of sh where the page's programs are; the lines that it prints."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    with TemporaryDirectory(prefix="plt") as runtime:
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": runtime}

        def run(line: str) -> list[str]:
            ran = subprocess.run(
                ["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr
            return ran.stdout.splitlines()

        yield run


def test_the_page_has_programs_and_one_block_of_commands() -> None:
    assert set(PROGRAMS) == {"rod.py", "count.py", "phases.py"}
    assert len(BLOCKS) == len(PROGRAMS) + 1


def test_the_commands_give_the_same_result_each(shell: Callable[[str], list[str]], tmp_path: Path) -> None:
    alone, ranks, scheduled = COMMANDS.splitlines()
    [result] = shell(alone)
    assert shell(ranks) == [result]
    shell(scheduled)
    [log] = tmp_path.glob("pliant-runs/**/*.log")
    assert log.read_text().splitlines() == [result]


def test_the_other_programs_give_the_same_result_alone_and_in_company(
    shell: Callable[[str], list[str]], start: Callable[..., BatchRun], tmp_path: Path
) -> None:
    words = {name: f"python {tmp_path / name}" for name in ("count.py", "phases.py")}
    jobs = [job(name, line, "{ min = 1, max = 2 }", verify=line) for name, line in words.items()]
    run = start("nodes = 3", *jobs)
    for line in words.values():
        assert shell(f"mpiexec -n 2 {line}") == shell(line)
    assert [each["verified"] for each in run.finish().values()] == [True, True]
