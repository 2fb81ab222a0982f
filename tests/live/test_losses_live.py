"""Jobs that go on without a node that is lost."""

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
