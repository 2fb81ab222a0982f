"""docs/launching.md: its commands are run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Page

from pliant.model.hostfile import HostSlots, parse_hostfile

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


def test_the_hostfile_of_the_page_is_read_as_it_says() -> None:
    hosts = parse_hostfile(PAGE.programs["hosts.txt"], "hosts.txt")
    assert hosts[:3] == (HostSlots("node1", 4), HostSlots("node2", 4, 8), HostSlots("node3", 2))
    assert hosts[3:] == (
        *(HostSlots(f"rack1n{number:02}", 2) for number in range(1, 17)),
        HostSlots("node4:2222", 2), HostSlots("[2001:db8::5]:22"),
    )  # fmt: skip
