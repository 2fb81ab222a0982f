"""docs/simulating.md, the section on ElastiSim's projects: its project is run, and prints what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from commands import command
from typer.testing import CliRunner

import pliant
from pliant.cli import made
from pliant.model.errors import BatchError, TraceError
from pliant.workloads.formats.elastisim import read_elastisim
from pliant.workloads.formats.simgrid import Speeds

TEXT = (Path(__file__).parents[2] / "docs" / "simulating.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str, str]] = re.findall(
    r"^```(\w+) ([\w.]+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for language, name, text in BLOCKS:
        if language in ("json", "xml"):
            (tmp_path / name).write_text(text)
    return tmp_path


def test_the_project_of_the_page_prints_what_it_says(project: Path) -> None:
    [commands], [printed], [said] = (
        [text for _, name, text in BLOCKS if name == wanted] for wanted in ("run", "printed", "said")
    )
    simulate, cut = commands.splitlines()
    result = CliRunner().invoke(made(), shlex.split(simulate)[1:])
    assert result.exit_code == 0, result.output
    assert result.stderr == said
    done = subprocess.run(shlex.split(cut), cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout == printed


def test_strict_refuses_it(project: Path) -> None:
    command = ["simulate", "jobs.json", "--platform", "cluster.xml", "--strict"]
    result = CliRunner().invoke(made(), command)
    assert isinstance(result.exception, TraceError)
    assert "4 things are not simulated" in str(result.exception)
    assert (project / "jobs.json").exists()


def test_the_first_job_takes_what_the_page_says(project: Path) -> None:
    first = read_elastisim(project / "jobs.json", Speeds("cluster.xml")).jobs[0]
    assert first.time(2) == pytest.approx(4 + 2 + 3 * (8 + 2))


@pytest.mark.parametrize("name", ["jobs.json", "solver.json", "cluster.xml"])
def test_what_a_project_names_is_not_overwritten(project: Path, name: str) -> None:
    (project / "conf.json").write_text('{"jobs_file": "jobs.json", "platform_file": "cluster.xml"}')
    before = (project / name).read_bytes()
    with pytest.raises(BatchError, match="is an input"):
        command("simulate", "conf.json", "--policy", "easy", "--jobs-csv", name)
    with pytest.raises(BatchError, match="is an input"):
        command(
            "simulate", "jobs.json", "--platform", "cluster.xml", "--policy", "easy", "--evalys-csv", name
        )
    assert (project / name).read_bytes() == before


def test_nodes_without_a_speed_are_told(project: Path) -> None:
    (project / "cluster.xml").write_text((project / "cluster.xml").read_text().replace('"1Gf"', '"0Gf"'))
    with pytest.raises(TraceError, match=r"of nodes without a speed|take no time"):
        command("simulate", "jobs.json", "--platform", "cluster.xml", "--strict")


def test_adaptive_jobs_and_reservations_do_not_go_together(project: Path) -> None:
    with pytest.raises(BatchError, match="job '2': it asks for nodes itself"):
        pliant.simulate(
            project / "jobs.json",
            "easy",
            platform="cluster.xml",
            reservations=[{"start": 5, "end": 9, "nodes": 1}],
        )
