"""What users are told of a node that is lost for good, and of a job that waits for it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

from harness import BatchRun, job, until

from pliant.core import records as r
from pliant.live.fleet.fleet import Site

Start = Callable[..., BatchRun]


def back(run: BatchRun) -> int:
    """How often a node has come back."""
    return sum(isinstance(each, r.NodesBack) for each in run.records())


def test_an_agent_that_is_told_to_end_is_a_lost_node_and_no_failed_rank(start: Start) -> None:
    run = start("nodes = 2", job("hit", "sleep 60", "2"))
    run.wait_for(r.JobLaunched)
    os.kill(run.agents()["n1"], signal.SIGTERM)
    hit = run.finish(code=1)["hit"]
    assert (hit["state"], hit["error"]) == ("NODE_FAIL", "lost node n1: its agent was ended by SIGTERM")
    said = (run.place / "stderr").read_text()
    assert "lost n1: its agent was ended by SIGTERM" in said
    assert "signal 9" not in said


def test_a_job_that_waits_for_more_nodes_than_are_left_says_which_are_gone(start: Start) -> None:
    run = start("nodes = 2", job("long", "sleep 60", "1"), job("wide", "true", "2", submit=0.1))
    run.wait_for(r.JobSubmitted, lambda x: x.job == 2)
    for times in range(Site().restarts + 1):
        until(lambda times=times: back(run) == times, "another agent")  # type: ignore[misc]
        os.kill(run.agents()["n1"], signal.SIGKILL)
    ended = run.wait_for(r.JobEnded, lambda x: x.job == 2)
    assert re.fullmatch(r"it needs 2 nodes, and 1 is left \(n1 was lost at \d+\.\d s\)", ended.error)
    run.process.send_signal(signal.SIGINT)
    jobs = run.finish(code=128 + signal.SIGINT)
    assert (jobs["wide"]["state"], jobs["wide"]["error"]) == ("CANCELLED", ended.error)
    assert jobs["long"]["error"] == "the run was ended by SIGINT"
    assert f"job wide was cancelled: {ended.error}" in (run.place / "stderr").read_text()
