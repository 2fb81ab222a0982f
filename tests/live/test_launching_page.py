"""docs/launching.md: its commands are run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Page

PAGE = Page("launching.md")


@pytest.mark.long
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    tagged, several, typed, summary, trace = PAGE.commands
    with PAGE.shell(tmp_path) as shell:
        assert sorted(shell(tagged)) == [f"n{i}.{i}: process {i} of 4" for i in range(4)]
        assert sorted(shell(several)) == ["0, here 0", "1, here 1", "2, here 2", "3, here 0", "4, here 1"]
        assert sorted(shell(typed)) == ["0 read 0 lines", "1 read 0 lines", "2 read 5 lines"]
        assert shell(summary) == []
        assert shell(trace) == []
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
