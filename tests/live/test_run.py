"""``pliant run`` as a command, with real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pliant.cli import app


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
        app, ["run", str(path), *options, "--output", str(tmp_path / "out"), "--json"]
    )
    assert result.exit_code == 0, result.output
    [run] = json.loads(result.stdout)["runs"]
    started = sorted(run["jobs"], key=lambda job: job["start_s"])
    assert [job["name"] for job in started] == ["first", "high", "low"]
