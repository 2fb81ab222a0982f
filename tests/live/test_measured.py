"""What the benches of places rest on: programs in processes of their own, and jobs that are resized by order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from harness import PROGRAMS

from pliant.core import records as r
from pliant.model.errors import PliantError
from pliant.plan.data.methods import MoveMethod
from pliant_lab.measure import programs, redistributing, resizes
from pliant_lab.measure.programs import BARE, Shape

CENTRALITY = "pliant.apps.betweenness"


@pytest.mark.long
def test_a_program_is_run_in_turn_over_places_and_says_what_each_has_done() -> None:
    two = Shape(2, 1)
    came: list[None] = []
    found = programs.in_turn(CENTRALITY, ["--scale", "12"], (BARE, two), 1, lambda: came.append(None))
    assert len(came) == 2
    [alone], [together] = found[BARE], found[two]
    assert (alone["checksum"], alone["places"], together["places"]) == (together["checksum"], 1, 2)
    assert all(did["calls"] > 0 for did in together["statistics"].values())
    assert set(together["statistics"]) == {"0", "1"}
    assert 0 < together["work_s"] < together["seconds"]  # the start of the other place does not count
    assert alone["cpu_s"] > 0
    assert programs.speedup(found, two, BARE) == alone["work_s"] / together["work_s"]


def test_a_program_that_fails_is_named_with_its_last_words() -> None:
    with pytest.raises(
        PliantError, match=r"-m pliant\.nothing 3 has failed: .* No module named pliant\.nothing"
    ):
        programs.run("pliant.nothing", ["3"])


@pytest.mark.long
def test_a_job_is_resized_by_order_until_it_ends(tmp_path: Path) -> None:
    program = str(PROGRAMS / "balanced.py")

    async def measured() -> list[resizes.Job]:
        async with resizes.machine(2, tmp_path) as machine:
            resized = await machine.run([program, "8", "7", "0.0015"], (1, 2))  # seconds, on any processor
            return [resized, await machine.run([program, "8", "3"], (2,))]

    resized, quiet = asyncio.run(measured())
    assert (resized.figures["tasks"], quiet.figures["tasks"]) == (4229, 55)
    assert [change.grows for change in resized.changes][:2] == [True, False]
    assert set(resized.figures["places"]) >= {0, 1}  # also what has left
    for change in resized.changes:
        assert change.nodes == 1
        assert (change.clean_s > 0) is not change.grows
        assert list(change.phases) == (
            ["prepare", "start", "synchronise", "connect", "commit"]
            if change.grows
            else ["prepare", "synchronise", "redistribute", "commit"]
        )
        assert min(change.phases.values()) >= 0
        # Two clocks: what the job has told may be more than what the scheduler has seen, and is never less.
        assert sum(change.phases.values()) >= change.seconds - change.clean_s - 1e-6
    assert (quiet.changes, quiet.figures["places"]) == ([], [0, 1])
    assert min(resized.startup_s, quiet.startup_s) > 0
    assert resizes.median_s([resized], grows=True) > 0
    with pytest.raises(PliantError, match="no job has shrunk before it ended"):
        resizes.median_s([quiet], grows=False)


def test_a_job_has_one_worker_a_place_and_is_given_up_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_WORKERS", "7")  # of another program's
    tells = "import json, os; print(json.dumps({'workers': os.environ['PLIANT_WORKERS']}))"

    async def measured() -> resizes.Job:
        async with resizes.machine(1, tmp_path) as machine:
            job = await machine.run(["-c", tells], (1,))
            monkeypatch.setattr(resizes, "LIMIT_S", 0.5)
            with pytest.raises(PliantError, match=r"sleep\(600\) has not ended within 0\.5 s; see .*job2"):
                await machine.run(["-c", "import time; time.sleep(600)"], (1,))
            return job

    assert asyncio.run(measured()).figures == {"workers": "1"}


def test_a_controller_that_fails_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = resizes.Machine._note

    def note(machine: resizes.Machine, record: r.Record) -> None:
        if isinstance(record, r.JobLaunched):
            raise OSError("the disk is full")
        noted(machine, record)

    monkeypatch.setattr(resizes.Machine, "_note", note)
    monkeypatch.setattr(resizes, "LIMIT_S", 60.0)

    async def measured() -> None:
        async with resizes.machine(1, tmp_path) as machine:
            await machine.run(["-c", "import time; time.sleep(600)"], (1,))

    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(measured())


@pytest.mark.long
def test_data_move_by_each_method_and_through_resizes() -> None:
    methods = ("bare", *MoveMethod)
    asked = redistributing.Effort(
        1 << 22, ((1, 2), (2, 1)), methods, 2, 60.0, 1 << 20, redistributing.around((1, 2)), 1
    )
    rows = redistributing.table(redistributing.moves(asked), asked.bytes)
    assert [(row["before"], row["method"]) for row in rows] == [
        *((1, each) for each in methods), *((2, each) for each in methods)
    ]  # fmt: skip
    assert all(len(row["runs_s"]) == 2 and min(row["runs_s"]) > 0 for row in rows)
    came: list[None] = []
    changed = redistributing.resized(asked, lambda: came.append(None))
    assert len(came) == 2
    assert [(row["before"], row["after"], row["repetitions"]) for row in changed] == [(1, 2, 1), (2, 1, 1)]
    assert min(row[name] for row in changed for name in ("scheduling_s", "resize_s")) > 0
