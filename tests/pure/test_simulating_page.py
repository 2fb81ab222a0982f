"""docs/simulating.md: its commands are run, and print what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from commands import command

from pliant.sim.evalys_csv import COLUMNS as EVALYS
from pliant.sim.job_rows import COLUMNS

TEXT = (Path(__file__).parents[2] / "docs" / "simulating.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    printed, compared = "", 0
    for language, text in BLOCKS:
        match language:
            case "swf" | "toml":  # a file, which says its name first
                (tmp_path / text.split(maxsplit=2)[1]).write_text(text)
            case "sh":
                for line in text.splitlines():
                    printed = run(line)
            case "python":
                exec(compile(text, "simulating.md", "exec"), {})  # noqa: S102 -- ours
                printed = capsys.readouterr().out
            case _:
                assert plain(printed) == plain(text)
                compared += 1
    assert compared == TEXT.count("```text\n")


def plain(text: str) -> list[str]:
    """Its lines, without the blanks behind them."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def run(line: str) -> str:
    first, *words = shlex.split(line)
    if first == "pliant":
        if words[-2:-1] == [">"]:
            Path(words[-1]).write_text(command(*words[:-2]))
            return ""
        return command(*words)
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout


def test_every_column_is_described() -> None:
    for name in COLUMNS:
        assert f"`{name}`" in TEXT
    for name in ("profile", "requested_number_of_resources", "final_state", "allocated_resources"):
        assert name in EVALYS
        assert f"`{name}`" in TEXT
