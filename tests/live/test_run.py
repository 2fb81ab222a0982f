"""``pliant run`` as a command, with real processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import HEAT, PATIENCE_S, PLIANT, PROGRAMS, BatchRun, job
from typer.testing import CliRunner

from pliant.cli import made
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.daemon.foreground import run_batch
from pliant.model.batch import Batch, ClusterSpec
from pliant.model.jobs import Bounds, JobSpec
from pliant.policy.registry import make


@pytest.mark.parametrize("of", ["batch", "command line"])
def test_jobs_start_in_the_order_of_the_queue(tmp_path: Path, of: str) -> None:
    """Real ones, on one node: the first takes it, and of the others the one with the highest priority is next."""
    order = "order = 'priority'\n" if of == "batch" else ""
    jobs = [
        f"[[jobs]]\nname = '{name}'\ncommand = 'true'\npriority = {priority}\n"
        for name, priority in (("first", 9), ("low", 1), ("high", 5))
    ]
    path = tmp_path / "batch.toml"
    path.write_text(f"[cluster]\nnodes = 1\npolicy = 'fcfs'\n{order}{''.join(jobs)}")
    options = [] if of == "batch" else ["--order", "priority"]
    result = CliRunner().invoke(
        made(), ["run", str(path), *options, "--output", str(tmp_path / "out"), "--json"]
    )
    assert result.exit_code == 0, result.output
    [run] = json.loads(result.stdout)["runs"]
    started = sorted(run["jobs"], key=lambda job: job["start_s"])
    assert [job["name"] for job in started] == ["first", "high", "low"]


def test_an_earlier_run_is_kept_and_the_journal_is_private(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for word in ("one", "two"):
        done = CliRunner().invoke(made(), ["run", "--output", str(out), "--", "echo", word])
        assert done.exit_code == 0, done.output
    [earlier] = (out / "earlier").iterdir()
    assert [(place / "echo.log").read_text() for place in (earlier, out)] == ["one\n", "two\n"]
    for place in (earlier, out):
        assert (place / "records.ndjson").stat().st_mode & 0o777 == 0o600
        replayed = CliRunner().invoke(made(), ["simulate", "--from-records", str(place / "records.ndjson")])
        assert replayed.exit_code == 0, replayed.output


def test_a_command_that_no_message_can_carry_costs_its_job_alone(tmp_path: Path) -> None:
    """The command refuses it (tests/pure/test_starting.py); whoever else submits it keeps the node."""
    big = JobSpec(name="big", nodes=Bounds.exactly(1), command=("true",), env={"A": "x" * 2_000_000})
    then = JobSpec(name="then", nodes=Bounds.exactly(1), command=("true",))
    batch = Batch(ClusterSpec(nodes=1), (big, then), "two")
    records, _ = run_batch(batch, make("fcfs"), Settings(), output=tmp_path)
    ends = [record for record in records if isinstance(record, r.JobEnded)]
    assert [(end.state.value, end.exit_code) for end in ends] == [("FAILED", 126), ("COMPLETED", 0)]
    assert "the most is" in ends[0].error
    assert not any(isinstance(record, r.NodesLost) for record in records)


def test_a_long_directory_for_temporary_files_is_no_obstacle(tmp_path: Path) -> None:
    """As clusters have them: too long for the path of a socket."""
    long = tmp_path / ("x" * 200)
    long.mkdir()
    env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"} | {
        "TMPDIR": str(long)
    }
    done = subprocess.run(
        [PLIANT, "run", "-N", "2", "--nodes", "2", "--output", "out", "--", *HEAT.split(), "--steps", "20"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list(long.iterdir())


def test_names_and_output_in_any_script_harm_nobody(
    start: Callable[..., BatchRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal that has ASCII only. The kernel cuts a process' name in the middle of its eighth letter."""
    program = tmp_path / "ééééééééé"
    shutil.copy("/bin/sleep", program)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    run = start(
        "nodes = 1",
        job("✓▲ océan", f"sh -c '{program} 600 & exit 0'"),
        job("海", "sh -c 'printf caf\\\\351; exit 3'"),
    )
    jobs = run.finish(code=1)
    assert [(each["state"], each["exit_code"]) for each in jobs.values()] == [("COMPLETED", 0), ("FAILED", 3)]
    assert jobs["海"]["error"].endswith("caf\N{REPLACEMENT CHARACTER}")
    assert not any(isinstance(record, r.NodesLost) for record in run.records())
    said = (run.place / "stderr").read_text()
    assert "Traceback" not in said
    assert "+^ oc?an completed" in said


def test_a_job_whose_lines_are_as_long_as_may_be_does_not_cost_its_node(
    start: Callable[..., BatchRun],
) -> None:
    run = start("nodes = 1", job("long", f"python {PROGRAMS / 'long_lines.py'}"))
    assert run.finish()["long"]["state"] == "COMPLETED", run.story()
    assert (run.out / "long.log").read_text() == "held\n"
