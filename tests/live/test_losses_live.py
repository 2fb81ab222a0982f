"""Jobs that need no MPI, and go on without a node that is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import PROGRAMS, BatchRun, job

from pliant.core import records as r


def is_of(number: int, record: r.GroupsLost) -> bool:
    return record.job == number


def test_tasks_and_places_go_on_without_the_node_of_a_killed_agent(
    start: Callable[..., BatchRun], tmp_path: Path
) -> None:
    """Tasks have failed at their end, which names what was lost; places are told, grow again and complete."""
    flag = tmp_path / "flag"
    tasks = f"sh -c 'until [ -e {flag} ]; do sleep 0.02; done; echo done without MPI$PMI_RANK'"
    run = start(
        'nodes = 6\npolicy = "easy"',
        job("tasks", tasks, "3", kind="tasks"),
        job(
            "bare",
            f"python {PROGRAMS / 'bare.py'} {flag}",
            "{ min = 1, max = 3, preferred = 3 }",
            kind="places",
        ),
    )
    run.wait_for(r.JobLaunched, lambda record: record.job == 1)
    run.wait_for(r.JobMalleable)
    for node in ("n1", "n4"):
        os.kill(run.agents()[node], signal.SIGKILL)
    for number in (1, 2):
        lost = run.wait_for(r.GroupsLost, partial(is_of, number))
        assert (lost.groups, lost.root, lost.node) == ((1,), 0, True)
    run.wait_for(r.NodesBack)
    ordered = run.order("bare", "3")
    assert ordered.returncode == 0, ordered.stderr
    run.wait_for(r.ResizeDone)
    flag.touch()
    jobs = run.finish(code=1)
    assert (jobs["tasks"]["state"], jobs["tasks"]["lost_groups"]) == ("NODE_FAIL", 1), run.story()
    assert jobs["tasks"]["error"].startswith("lost group 1 on n1: node n1 was lost\n")
    assert (run.out / "tasks.log").read_text() == "done without MPI\n" * 2
    assert (jobs["bare"]["state"], jobs["bare"]["result"]) == ("COMPLETED", "True [3, 2, 3]"), run.story()
    assert "tasks goes on without group 1, lost with n1" in (run.place / "stderr").read_text()


def test_commands_that_need_no_mpi(start: Callable[..., BatchRun], tmp_path: Path) -> None:
    """Each process is told its place, and ``pliant queue`` and the report say of what kind the jobs are."""
    flag = tmp_path / "flag"
    line = (
        f"echo $PLIANT_JOB $PLIANT_GROUP $PLIANT_RANK $PLIANT_NODE; until [ -e {flag} ]; do sleep 0.02; done"
    )
    tasks = start("", options=("--kind", "tasks", "-N", "2", "--nodes", "2"), command=("sh", "-c", line))
    bare = ("python", str(PROGRAMS / "bare.py"), str(flag))
    places = start("", options=("--kind", "places", "-N", "1:2", "--nodes", "2"), command=bare)
    tasks.wait_for(r.JobLaunched)
    places.wait_for(r.ResizeDone)
    listed = {job["name"]: job["kind"] for run in tasks.queue() for job in run["jobs"]}
    assert listed == {"sh": "tasks", "bare": "places"}
    flag.touch()
    [job] = tasks.finish().values()
    assert (job["kind"], job["state"]) == ("tasks", "COMPLETED")
    assert sorted((tasks.out / "sh.log").read_text().splitlines()) == ["1 0 0 n0", "1 1 0 n1"]
    [job] = places.finish().values()
    assert (job["kind"], job["state"]) == ("places", "COMPLETED")
    assert job["result"] == "True [1, 2]"
