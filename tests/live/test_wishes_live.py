"""Evolving jobs: wishes that stay open, phases, and a load that decides; results are those of serial runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import PROGRAMS, BatchRun, is_right, job, pliant

from pliant.core import records as r
from pliant.model.nodes import NodeSet

Start = Callable[..., BatchRun]
EVOLVES = {"class": "evolving"}


def wanted_resizes(report: dict[str, Any]) -> list[tuple[int, int]]:
    """From how many nodes to how many, of the resizes that a job has asked for itself."""
    return [(x["from"], x["to"]) for x in report["resizes"] if x["reason"]["code"] == "wanted"]


def test_a_wish_stays_open_until_the_nodes_are_free(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start(
        "nodes = 3\ncooldown_s = 0",
        job("keeps", f"python {PROGRAMS / 'keeps.py'} 100000", "{ min = 1, max = 4 }", **EVOLVES),
        job("holds", f"sh -c 'until [ -e {flag} ]; do sleep 0.02; done'", "2", kind="tasks"),
    )
    run.wait_for(r.JobWishes)
    run.wait_for(r.JobStarted, lambda x: x.job != 1)
    [going_on] = run.queue()
    assert [each.get("wish") for each in going_on["jobs"]] == ["3:4", None]
    flag.touch()
    kept = run.finish()["keeps"]
    assert is_right(kept["result"])
    assert [x["outcome"] for x in kept["resizes"]] == ["done"]
    assert wanted_resizes(kept) == [(1, 3)]


@pytest.mark.long
def test_a_wish_stays_open_when_the_rank_that_asked_has_gone(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start(
        "nodes = 4\ncooldown_s = 0",
        job("keeps", f"python {PROGRAMS / 'keeps.py'} 100000", "{ min = 1, max = 4 }", **EVOLVES),
        job("holds", f"sh -c 'until [ -e {flag} ]; do sleep 0.02; done'", "2", kind="tasks"),
    )
    run.wait_for(r.JobWishes)
    run.wait_for(r.JobStarted, lambda x: x.job != 1)
    assert "ordered to move" in pliant(run, "migrate", "keeps")
    moved = run.wait_for(r.ResizeDone)
    assert (moved.released, moved.root > 0) == (NodeSet.of([0]), True)
    assert [each.get("wish") for each in run.queue()[0]["jobs"]] == ["3:4", None]
    flag.touch()
    kept = run.finish()["keeps"]
    assert is_right(kept["result"])
    assert [(x["from"], x["outcome"]) for x in kept["resizes"]] == [(1, "done"), (1, "done")]
    assert [after >= 3 for _, after in wanted_resizes(kept)] == [True]


@pytest.mark.long
def test_phases_and_load_decide_and_the_results_are_those_of_serial_runs(start: Start) -> None:
    phases = "python -m pliant.apps.phases --max 3 --tolerance 1e-5 --share 15"
    steady = "python -m pliant.apps.steady --rows 24 --steps 36 --period 12 --target 0.25 --window 2 --max 2"
    run = start(
        "nodes = 5\ncooldown_s = 0",
        job(
            "phases", f"{phases} --slow 0.01", "{ min = 1, max = 3 }", verify=f"{phases} --serial", **EVOLVES
        ),
        job(
            "steady", f"{steady} --slow 0.002", "{ min = 1, max = 2 }", verify=f"{steady} --serial", **EVOLVES
        ),
    )
    jobs = run.finish()
    assert [jobs[name]["verified"] for name in ("phases", "steady")] == [True, True], run.story()
    # Which of them are in time for their phase, hangs on how busy the machine is.
    assert any(before < after for before, after in wanted_resizes(jobs["phases"])), run.story()
    assert wanted_resizes(jobs["steady"])[:1] == [(1, 2)], run.story()
