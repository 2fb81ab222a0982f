"""README.md: what it names is there, and its quick commands are run as they stand there."""

from __future__ import annotations

import gzip
import re
import runpy
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from commands import command
from readme import BLOCKS, ELSEWHERE, README, ROOT, clone, commands, live, quick

from pliant.model.batch import read_batch

EXAMPLES = ROOT / "examples"
WRITTEN = ("report.html", "cost.json", "jobs.csv", "pliant-runs/records.ndjson")
"""By a command, and then perhaps read by another."""


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(clone(tmp_path))
    return tmp_path


def test_every_file_that_a_command_names_is_there() -> None:
    words = {word for line in commands() for word in re.findall(r"[\w./-]+\.(?:\w+)", line)}
    files = {word for word in words if re.search(r"\.(gz|swf|toml|py|pl|html|json|csv|ndjson)$", word)}
    assert {word for word in files if word not in WRITTEN and not (ROOT / word).is_file()} == set()
    assert {f"examples/{path.name}" for path in EXAMPLES.iterdir()} - files - set(ELSEWHERE) == {
        "examples/make_trace.py", "examples/ocean.py", "examples/widest.py",
    }  # fmt: skip
    assert "examples/ocean.py" in (EXAMPLES / "batch.toml").read_text()
    assert "`--policy examples/widest.py`" in README


def test_what_the_page_shows_of_an_example_is_the_example() -> None:
    shown = {text for _, text in BLOCKS}
    for name in ("hello.py", "widest.py"):
        assert (EXAMPLES / name).read_text() in shown, name
    [batch] = [text for language, text in BLOCKS if language == "toml" and 'name = "ocean"' in text]
    assert batch in (EXAMPLES / "batch.toml").read_text()
    page = (ROOT / "docs/external.md").read_text(encoding="utf-8")
    assert (EXAMPLES / "fcfs.pl").read_text() in page


def test_the_trace_is_the_one_that_its_program_makes() -> None:
    made = runpy.run_path(str(EXAMPLES / "make_trace.py"))
    assert gzip.decompress((EXAMPLES / "trace.swf.gz").read_bytes()).decode() == made["text"]()


def test_the_batch_is_one() -> None:
    batch = read_batch(tomllib.loads((EXAMPLES / "batch.toml").read_text()), "batch.toml")
    assert len(batch.jobs) == 3


def test_each_command_is_run_by_a_test_or_cannot_be() -> None:
    assert len(commands()) == len(quick()) + len(live()) + len(
        [line for line in commands() if line not in quick() and any(word in line for word in ELSEWHERE)]
    )
    assert len(quick()) >= 18
    assert len(live()) >= 6


@pytest.mark.usefixtures("top")
@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.long if "lublin:10000" in line else ()) for line in quick()],
)
def test_a_quick_command_does_what_it_says(line: str, top: Path) -> None:
    if "perl" in line and shutil.which("perl") is None:
        pytest.skip("there is no perl")
    (top / "pliant-runs").mkdir()
    command(
        "simulate", "examples/batch.toml", "--cost", "start_s=1", "--records", "pliant-runs/records.ndjson"
    )
    if "--cost cost.json" in line:
        command("calibrate", "pliant-runs/records.ndjson", "--out", "cost.json")
    words = shlex.split(line)
    assert words[0] == ".venv/bin/pliant"
    assert command(*words[1:])
    for option in ("--report", "--out", "--jobs-csv"):
        if option in words:
            assert (top / words[words.index(option) + 1]).stat().st_size > 0


@pytest.mark.usefixtures("top")
def test_the_policy_of_the_page_runs_on_its_trace() -> None:
    said = "examples/trace.swf.gz --malleable 50 --policy"
    assert "widest on 100 nodes" in command("simulate", *said.split(), "examples/widest.py")


def test_the_licence_is_the_one_that_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    [name] = project["license-files"]
    assert "Apache License\n                           Version 2.0, January 2004" in (ROOT / name).read_text()
