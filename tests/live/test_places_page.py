"""Every block of code of docs/places.md is run, so that the page cannot say what is not so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/places.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = {text.split(maxsplit=2)[1].rstrip(":"): text for language, text in BLOCKS if language == "python"}
[COMMANDS] = [text for language, text in BLOCKS if language == "sh"]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    """Run a line of sh where the page's programs are; the lines that it prints, or that its job has logged."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    with TemporaryDirectory(prefix="plt") as runtime:
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": runtime}

        def run(line: str) -> list[str]:
            ran = subprocess.run(
                ["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr
            if not line.startswith("pliant run"):
                return ran.stdout.splitlines()
            [log] = tmp_path.glob("pliant-runs/*.log")
            said = log.read_text().splitlines()
            log.unlink()
            return said

        yield run


def test_the_commands_of_the_page_do_what_it_says(shell: Callable[[str], list[str]], tmp_path: Path) -> None:
    alone, two, job, futures, primes, lost, guest = COMMANDS.splitlines()
    assert shell(alone) == shell(two) == shell(job) == [str(sum(n * n for n in range(10_000)))]
    assert shell(futures) == [str(sum(n**3 for n in range(100)))]
    assert shell(primes) == ["5133"]
    assert shell(lost)[-1] == "[0, 2]"
    assert shell(guest) == ["place(1) came, place(1) has left"]
    [hello] = re.findall(r"^```python\n(from pliant\.apgas .*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "hello.py").write_text(hello)
    assert shell("PLIANT_PLACES=4 python hello.py") == ["here I am"] * 4
    assert len(BLOCKS) == len(PROGRAMS) + 1
    assert all(name in COMMANDS for name in PROGRAMS)
