"""Kills aimed at the phases of an expansion, drawn with a seed: no job hangs, and none has a wrong result.

PLIANT_KILLS=50 has so many of them; PLIANT_KILLS_SEED draws others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, is_right, job, own_library, until

from pliant.core import records as r
from pliant.model.flavours import MPICH

Start = Callable[..., BatchRun]
POINTS = ("connect", "connected", "merge", "merged", "data", "settle")
NEWCOMERS, ROOT = ("0", "1", "all"), "root"
ROOTS_POINTS = ("connect", "merge", "data", "settle")
KILLS, SEED = int(os.environ.get("PLIANT_KILLS", "6")), int(os.environ.get("PLIANT_KILLS_SEED", "1"))


def drawn(number: int) -> str:
    """Who dies, at which point, and how long after that."""
    draws = random.Random(f"{SEED} {number}")
    if draws.random() < 0.25:
        return f"{ROOT} {draws.choice(ROOTS_POINTS)} 0"
    return f"{draws.choice(NEWCOMERS)} {draws.choice(POINTS)} {draws.choice(('0', '0', '0.001', '0.01'))}"


@pytest.mark.long
@pytest.mark.skipif(
    own_library().mpi.flavour != MPICH, reason="the limits of others stand in docs/resizing.md"
)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill_in_a_resize_costs_the_resize_or_the_job_and_no_result(
    start: Start, tmp_path: Path, number: int
) -> None:
    words = drawn(number)
    flag, plan = tmp_path / "flag", tmp_path / "plan"
    plan.write_text(words)
    run = start(
        'nodes = 2\nslots = 2\npolicy = "easy"',
        job(
            "hit",
            f"python {PROGRAMS / 'killed.py'} {flag} {plan}",
            '{ min = 1, max = 2 }\nenv = { PLIANT_DEADLINE = "6" }',
        ),
    )
    run.wait_for(r.JobMalleable)
    until(lambda: run.order("hit", "2").returncode == 0, "the order")
    ends = r.ResizeFailed | r.ResizeDone | r.JobEnded
    until(
        lambda: any(isinstance(record, ends) for record in run.records()),
        "the end of the resize, or of the job",
    )
    flag.touch()
    hit = run.finish(code=None)["hit"]
    story = f"seed {SEED}, kill {number}: {words}\n{run.story()}"
    who, point, delay = words.split()
    rank = {"all": "*", ROOT: "0"}.get(who, who)
    reached = {path.name: path.read_text().strip() for path in tmp_path.glob(f"{plan.name}.*.{rank}")}
    assert delay != "0" or point in reached.values(), f"nobody was killed: {reached}, {story}"
    [resize] = hit["resizes"]
    if hit["state"] == "COMPLETED":
        assert is_right(hit["result"]), story
        assert resize["outcome"] in ("failed", "done"), story
        return
    assert (hit["state"], hit["result"]) == ("FAILED", None), story
    said = "was ended by signal" if resize["outcome"] == "done" else f"in its phase {resize['phase']}"
    assert resize["phase"] in ("connect", "merge", "reorder", "redistribute", "commit", None), story
    assert said in (run.out / "hit.log").read_text() + hit["error"], story
