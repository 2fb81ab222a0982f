"""docs/places.md, and what README.md says of places: their programs are run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import ROOT, Page

PAGE = Page("places.md")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    with PAGE.shell(tmp_path) as run:
        yield run


@pytest.mark.long
def test_the_commands_of_the_page_do_what_it_says(shell: Callable[[str], list[str]], tmp_path: Path) -> None:
    alone, two, job, futures, primes, together, lost, guest = PAGE.commands
    assert shell(alone) == shell(two) == shell(job) == [str(sum(n * n for n in range(10_000)))]
    assert shell(futures) == [str(sum(n**3 for n in range(100)))]
    assert shell(primes) == ["5133"]
    assert shell(together) == [f"{sum(n * n for n in range(100))} {3 * (6 + 3)}"]
    assert shell(lost)[-1] == "[0, 2] [True]"
    assert shell(guest) == ["place(1) came, place(1) has left"]
    [hello] = re.findall(r"^```python\n(from pliant\.apgas .*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "hello.py").write_text(hello)
    for unbuffered in ("", "1"):
        assert shell(f"PYTHONUNBUFFERED={unbuffered} PLIANT_PLACES=4 python hello.py") == ["here I am"] * 4
    assert all(name in " ".join(PAGE.commands) for name in PAGE.programs)
