"""Failures in each phase of a resize: the job goes on at its old size with correct data, or ends as docs/resizing.md
says; the report names the phase, and nothing is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import PROGRAMS, BatchRun, is_right, job, own_library, own_mpi, until, until_told

from pliant.core import records as r
from pliant.model.flavours import INTEL, MPICH, OPEN, WAYS

GOES_ON = own_library().mpi.flavour == OPEN
"""Whether MPI tells who waits in it that others are lost."""
OVER_OFI = own_library().mpi.flavour == MPICH and own_library().mpi.version < (4, 3)
"""Over ofi such an MPICH may stand still when it has begun to connect to a newcomer that is lost: docs/resizing.md."""
Start = Callable[..., BatchRun]

KEEP = 'policy = "easy"'  # never resizes by itself: only orders do


def is_resize(number: int, record: Any) -> bool:
    return bool(record.resize == number)


def is_of(number: int, record: Any) -> bool:
    return bool(record.job == number)


def ordered(run: BatchRun, number: int, size: int = 2, name: str = "hit") -> None:
    """Resize ``number`` of the run is ordered, when the nodes of those before are clean."""
    until(lambda: run.order(name, str(size)).returncode == 0, f"order {number}")


def failed(run: BatchRun, number: int) -> r.ResizeFailed:
    record: r.ResizeFailed = run.wait_for(r.ResizeFailed, partial(is_resize, number))
    assert record.phase is not None
    said = f"resize {number} failed in its phase {record.phase}: "
    until(lambda: said in (run.out / "hit.log").read_text(), "the job's log says so too")
    until(lambda: sum(isinstance(x, r.NodesClean) for x in run.records()) >= number, "a clean node")
    return record


@pytest.mark.long
def test_newcomers_that_die_or_stand_still_on_their_way_cost_the_job_nothing(
    start: Start, tmp_path: Path
) -> None:
    """In all phases but Merge, which nothing gets the job out of."""
    flag, plan = tmp_path / "flag", tmp_path / "plan"
    plan.write_text("none start 0")
    bounds = '{ min = 1, max = 2 }\nenv = { PLIANT_DEADLINE = "9" }'
    run = start(
        f"nodes = 2\nslots = 2\n{KEEP}",
        job("hit", f"python {PROGRAMS / 'killed.py'} {flag} {plan}", bounds),
    )
    run.wait_for(r.JobMalleable)
    cases = {
        "0 start 0": "start",
        "0 join 0": "synchronise",
        "0 connect 0": "connect",
        "1 merged 0": "reorder",
        "all data 0": "redistribute",
        "1 data stop": "redistribute",
    }
    if OVER_OFI:
        cases = {words: phase for words, phase in cases.items() if phase in ("start", "synchronise")}
    # On busy processors Intel MPI may not get out of these, and Open MPI may crash in the first: docs/resizing.md.
    behind = {INTEL: ("1 merged 0", "all data 0"), OPEN: ("1 merged 0",)}.get(own_library().mpi.flavour, ())
    cases = {words: phase for words, phase in cases.items() if words not in behind}
    for number, (words, phase) in enumerate(cases.items(), 1):
        plan.write_text(words)
        ordered(run, number)
        record = failed(run, number)
        assert record.phase in about(phase), (words, record)
        said = "waited 6 s" if words.endswith("stop") else r"signal 9|could not be connected|PROC_FAILED"
        assert re.search(said, record.error), (words, record)
    # One that is slow is waited for.
    plan.write_text("1 join stop")
    ordered(run, len(cases) + 1)
    until(lambda: any("join" in path.read_text() for path in slow(plan, len(cases) + 1)), "the newcomer")
    for pid, cookie in run.ranks(1).items():
        if cookie["PLIANT_GROUP"] == str(len(cases) + 1):
            os.kill(pid, signal.SIGCONT)
    done = run.wait_for(r.ResizeDone)
    assert set(done.phases) == {
        "prepare", "start", "synchronise", "connect", "merge", "reorder", "redistribute", "commit",
    }  # fmt: skip
    flag.touch()
    hit = ended_well(run)
    *failures, done_at = [each["phase"] for each in hit["resizes"]]
    assert all(found in about(phase) for found, phase in zip(failures, cases.values(), strict=True))
    assert done_at is None


def about(phase: str) -> set[str]:
    """What the root may say where a newcomer has come to ``phase``: in what is common to both the newcomer may be the
    first to come there."""
    before = {"merge": "connect", "reorder": "merge", "redistribute": "reorder"}
    return {phase, before.get(phase, phase)}


def ended_well(run: BatchRun) -> dict[str, Any]:
    """The job has its right result; Open MPI 5.0.11 itself may then crash in MPI_Finalize, if newcomers were lost."""
    hit = run.finish(code=None if GOES_ON else 0)["hit"]
    assert is_right(hit["result"]), run.story()
    crashed = GOES_ON and (hit["state"], hit["exit_code"]) == ("FAILED", 139)
    assert crashed or (hit["state"], hit["exit_code"]) == ("COMPLETED", 0), run.story()
    return dict(hit)


def slow(plan: Path, group: int, rank: int = 1) -> list[Path]:
    """What this rank of a group has come to."""
    return [*plan.parent.glob(f"plan.{group}.{rank}")]


@pytest.mark.long
@pytest.mark.skipif(not GOES_ON, reason="this MPI does not say that a newcomer is lost")
def test_a_job_goes_on_whose_newcomer_dies_in_merge(start: Start, tmp_path: Path) -> None:
    """If it is told so on all of its ranks: it has one."""
    flag, plan = tmp_path / "flag", tmp_path / "plan"
    plan.write_text("0 merge 0")
    run = start(
        f"nodes = 2\n{KEEP}",
        job("hit", f"python {PROGRAMS / 'killed.py'} {flag} {plan}", "{ min = 1, max = 2 }"),
    )
    run.wait_for(r.JobMalleable)
    ordered(run, 1)
    assert failed(run, 1).phase in about("merge")
    flag.touch()
    ended_well(run)


@pytest.mark.long
@pytest.mark.skipif(GOES_ON, reason="with this MPI the job goes on")
def test_a_job_that_ends_in_merge_says_so(start: Start, tmp_path: Path) -> None:
    flag, plan = tmp_path / "flag", tmp_path / "plan"
    plan.write_text("0 merge 0")
    bounds = '{ min = 1, max = 2 }\nenv = { PLIANT_DEADLINE = "4" }'
    run = start(f"nodes = 2\n{KEEP}", job("hit", f"python {PROGRAMS / 'killed.py'} {flag} {plan}", bounds))
    run.wait_for(r.JobMalleable)
    ordered(run, 1)
    until(
        lambda: any(isinstance(record, r.ResizeFailed | r.JobEnded) for record in run.records()),
        "the end of the resize, or of the job",
    )
    flag.touch()
    hit = run.finish(code=None)["hit"]
    [resize] = hit["resizes"]
    if resize["phase"] == "connect":
        # The newcomer saw first that all were connected, and the job had not yet when it died.
        assert (resize["outcome"], hit["state"]) == ("failed", "COMPLETED"), run.story()
        assert is_right(hit["result"]), run.story()
        return
    assert resize["phase"] == "merge", run.story()
    if (
        OVER_OFI and resize["outcome"] == "failed"
    ):  # it may say so in time; what comes of the job then is open
        assert hit["state"] == "FAILED" or is_right(hit["result"]), run.story()
        return
    assert (hit["state"], resize["outcome"]) == ("FAILED", "ended"), run.story()
    assert "the job, being resized, failed in its phase merge: " in (run.out / "hit.log").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "phase"),
    [
        ("root connect crash", "connect"),
        ("root merge crash", "merge"),
        ("root settle crash", "commit"),
        ("root settle stop", "commit"),
        ("0 settle 0", "commit"),
    ],
)
def test_a_job_whose_root_is_lost_or_that_is_behind_its_last_word_says_where(
    start: Start, tmp_path: Path, words: str, phase: str
) -> None:
    """A crash of MPI in Connect or Merge is one of the root. If it stands still another rank ends the job."""
    flag, plan = tmp_path / "flag", tmp_path / "plan"
    plan.write_text(words)
    bounds = '{ min = 1, max = 2 }\nenv = { PLIANT_DEADLINE = "4" }'
    run = start(
        f"nodes = 2\nslots = 2\n{KEEP}",
        job("hit", f"python {PROGRAMS / 'killed.py'} {flag} {plan}", bounds),
    )
    run.wait_for(r.JobMalleable)
    ordered(run, 1)
    if GOES_ON and words == "0 settle 0":
        may_go_on(run, flag, plan)
        return
    hit = run.finish(code=1)["hit"]
    assert hit["state"] == "FAILED", run.story()
    assert [(each["outcome"], each["phase"]) for each in hit["resizes"]] == [("ended", phase)]
    assert f"the job, being resized, failed in its phase {phase}: " in (run.out / "hit.log").read_text()


def may_go_on(run: BatchRun, flag: Path, plan: Path) -> None:
    """Where MPI says that a newcomer is lost, the job says so itself. If it hears of it before the last word, which the
    newcomer had already, it goes on as before; else it ends."""
    until(lambda: any("settle" in path.read_text() for path in slow(plan, 1, rank=0)), "the newcomer")
    flag.touch()
    hit = run.finish(code=None)["hit"]
    [resize] = hit["resizes"]
    if (resize["outcome"], resize["phase"]) == ("failed", "redistribute"):
        ended_well(run)
        return
    assert (hit["state"], resize["outcome"], resize["phase"]) == ("FAILED", "ended", "commit"), run.story()


@pytest.mark.long
def test_a_rank_that_leaves_and_does_not_end_is_ended(start: Start, tmp_path: Path) -> None:
    """Its node is proved clean all the same, and serves the next job."""
    flag = tmp_path / "flag"
    program = f"python {PROGRAMS / 'lingers.py'} {flag}"
    run = start(f"nodes = 3\n{KEEP}", job("hit", program, "{ min = 1, max = 3, preferred = 3 }"))
    run.wait_for(r.JobMalleable)
    ordered(run, 1, size=1)
    done = run.wait_for(r.ResizeDone)
    assert len(done.released) == 2
    ordered(run, 2, size=3)  # when both are clean
    run.wait_for(r.ResizeDone, partial(is_resize, 2))
    flag.touch()
    hit = run.finish()["hit"]
    assert (hit["state"], hit["result"]) == ("COMPLETED", "3"), run.story()


@pytest.mark.long
def test_a_program_that_is_gone_costs_a_resize_and_not_the_job(start: Start, tmp_path: Path) -> None:
    flag, script, program = tmp_path / "flag", tmp_path / "until.py", tmp_path / "program"
    script.write_bytes((PROGRAMS / "until.py").read_bytes())
    program.write_text(f'#!/bin/sh\nexec python {PROGRAMS / "until.py"} "$@"\n')
    program.chmod(0o700)
    run = start(
        f"nodes = 4\n{KEEP}",
        job("hit", f"python {script} {flag}", "{ min = 1, max = 2 }"),
        job("other", f"{program} {flag}", "{ min = 1, max = 2 }"),
    )
    causes = {1: "exited with ", 2: "program"}
    for number, name, path in ((1, "hit", script), (2, "other", program)):
        run.wait_for(r.JobMalleable, partial(is_of, number))
        path.unlink()
        ordered(run, number, name=name)
        record = run.wait_for(r.ResizeFailed, partial(is_of, number))
        assert record.phase == "start"
        assert causes[number] in record.error
    flag.touch()
    jobs = run.finish()
    for name in ("hit", "other"):
        assert (jobs[name]["state"], is_right(jobs[name]["result"])) == ("COMPLETED", True)


@pytest.mark.long
def test_a_node_that_does_not_answer_costs_a_resize_and_not_the_job(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start(
        f"nodes = 2\nresize_deadline_s = 1.0\n{KEEP}", until_told("hit", "{ min = 1, max = 2 }", flag)
    )
    run.wait_for(r.JobMalleable)
    agent = run.agents()["n1"]
    os.kill(agent, signal.SIGSTOP)
    try:
        ordered(run, 1)
        record = run.wait_for(r.ResizeFailed)
        withdrawn = run.wait_for(r.ResizeWithdrawn)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert record.phase == "start"
    assert "not done in time: in its phase start " in withdrawn.reason
    assert "resize_deadline_s is 1 s" in withdrawn.reason
    run.wait_for(r.NodesClean)
    flag.touch()
    hit = run.finish()["hit"]
    assert (hit["state"], is_right(hit["result"])) == ("COMPLETED", True)


@pytest.mark.long
def test_a_job_without_free_descriptors_goes_on(start: Start, tmp_path: Path) -> None:
    """UCX would crash in Connect."""
    flag, full = tmp_path / "flag", tmp_path / "full"
    run = start(
        f"nodes = 2\n{KEEP}",
        job("hit", f"python {PROGRAMS / 'no_descriptor.py'} {flag} {full}", "{ min = 1, max = 2 }"),
    )
    run.wait_for(r.JobMalleable)
    full.touch()
    until(lambda: "none is free" in (run.out / "hit.log").read_text(), "a root without descriptors")
    ordered(run, 1)
    record = failed(run, 1)
    assert "fewer than 32 free file descriptors" in record.error
    assert record.phase == "synchronise"
    full.unlink()
    until(lambda: "free again" in (run.out / "hit.log").read_text(), "a root with descriptors")
    flag.touch()
    hit = run.finish()["hit"]
    assert (hit["state"], is_right(hit["result"])) == ("COMPLETED", True), run.story()


def own_memory() -> str:
    """Why a run cannot have a /dev/shm of its own here; empty if it can."""
    said = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/dev/shm"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return " ".join(said.stderr.split()) if said.returncode else ""


@pytest.mark.long
def test_a_full_dev_shm_costs_a_resize_and_not_the_job(start: Start, tmp_path: Path) -> None:
    if why := own_memory():
        pytest.skip(f"a /dev/shm of its own cannot be mounted: {why}")
    flag = tmp_path / "flag"
    mount = 'mount -t tmpfs -o size=512m none /dev/shm && exec "$@"'
    run = start(
        f"nodes = 2\n{KEEP}",
        until_told("hit", "{ min = 1, max = 2 }", flag),
        prefix=("unshare", "--mount", "sh", "-c", mount, "sh"),
    )
    run.wait_for(r.JobMalleable)
    full = Path(f"/proc/{run.process.pid}/root/dev/shm/full")
    with full.open("wb") as file:
        room = os.fstatvfs(file.fileno())
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
    ordered(run, 1)
    until(lambda: any(isinstance(x, r.ResizeFailed | r.ResizeDone) for x in run.records()), "its end")
    if any(isinstance(x, r.ResizeFailed) for x in run.records()):
        assert failed(run, 1).phase in ("start", "connect")
        full.unlink()
        ordered(run, 2)
    else:  # Intel MPI, and MPICH over ofi, grow all the same
        assert own_mpi() != WAYS[0]
        full.unlink()
    run.wait_for(r.ResizeDone)
    flag.touch()
    hit = run.finish()["hit"]
    assert (hit["state"], is_right(hit["result"])) == ("COMPLETED", True), run.story()
