"""What surrounds a run fails: descriptors, the display, the disk, the policy. Jobs are not lost to it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from harness import PATIENCE_S, PLIANT, PROGRAMS, BatchRun, heat, job, until

from pliant.core import records as r
from pliant.launch import shm

Start = Callable[..., BatchRun]


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_run_ends_with_closed_descriptors(tmp_path: Path, closed: str) -> None:
    out = tmp_path / "out"
    done = shell(f"{PLIANT} run --nodes 1 --output {out} -- sh -c 'echo one; echo two >&2' {closed}")
    assert done.returncode == 0
    assert (out / "sh.log").read_text() == "one\ntwo\n"
    assert (out / "records.ndjson").read_text().count("JobEnded") == 1


@pytest.mark.parametrize("where", ["| head -0", "> /dev/full", "2>&1 | head -1"])
def test_a_display_that_cannot_be_written_to_ends_no_job(tmp_path: Path, where: str) -> None:
    out = tmp_path / "out"
    done = shell(f"{PLIANT} run --nodes 1 --output {out} -- sh -c 'sleep 0.5; echo done' {where}")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert (out / "sh.log").read_text() == "done\n"
    assert "COMPLETED" in (out / "records.ndjson").read_text()


@pytest.mark.long
def test_a_controller_that_is_killed_while_its_agents_start_leaves_nothing(tmp_path: Path) -> None:
    """Agents that come to an end of the run before they have begun."""
    with tempfile.TemporaryDirectory(prefix="plt") as runtime:
        env = {**os.environ, "XDG_RUNTIME_DIR": runtime}
        for moment in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4):
            command = [PLIANT, "run", "--nodes", "3", "--output", str(tmp_path / "out"), "--", "sleep", "600"]
            with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                run = process.stdout.readline().split()[1].rstrip(":")
                time.sleep(moment)  # no wait for anything: whenever it is, nothing may be left
                process.kill()
            until(partial(is_gone, run), "the agents' end")


def is_gone(run: str) -> bool:
    return not list(shm.SHM.glob(f"pliant-{run}-*")) and not agents(run)


def agents(run: str) -> list[str]:
    """The command lines of the run's agents that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().decode(errors="replace"))
    return [line for line in found if "pliant.launch.agent" in line and run in line]


def test_results_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    done = shell(f"{PLIANT} run --nodes 1 --json --output {tmp_path / 'out'} -- true > /dev/full")
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_while_the_disk_is_full_only_starts_wait_and_no_record_is_lost(start: Start, tmp_path: Path) -> None:
    # What a job does first is to look whether its start has been recorded.
    journal = tmp_path / "run0/out/records.ndjson"
    recorded = f'grep JobStarted {journal} | grep -q "job.:$PLIANT_JOB,"'
    jobs = [job(f"j{i}", f"sh -c '{recorded} && sleep 0.3'", submit=i and 2.0 + 0.1 * i) for i in range(20)]
    run = start("nodes = 2\npolicy = 'fcfs'", *jobs)
    run.wait_for(r.NodesClean)
    # No file of the run may grow any more: to the journal it is a full disk.
    _, hard = resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE)
    size = (run.out / "records.ndjson").stat().st_size
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (size + 100, hard))
    run.wait_for_text("the journal cannot be written")
    assert run.process.poll() is None
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    run.wait_for_text("the journal can be written again")
    ended = run.finish()
    assert {one["state"] for one in ended.values()} == {"COMPLETED"}
    records = run.records()
    assert [record.at for record in records] == sorted(record.at for record in records)
    assert sum(isinstance(record, r.JobEnded) for record in records) == len(jobs)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_with_the_table_and_the_report_of_what_ran(
    start: Start, number: signal.Signals
) -> None:
    run = start(
        "nodes = 2",
        job("done", "true"),
        heat("runs", "1", submit=0.1, work_s=60.0),
        job("deaf", "sh -c 'trap : TERM; while :; do sleep 600; done'", submit=0.1),
        job("waits", "true", "2", submit=0.2),
    )
    run.wait_for(r.JobProgressed)
    run.process.send_signal(number)
    jobs = run.finish(code=128 + number)
    states = {name: one["state"] for name, one in jobs.items()}
    assert states == {"done": "COMPLETED", "runs": "CANCELLED", "deaf": "CANCELLED", "waits": "CANCELLED"}
    said = (run.place / "stderr").read_text()
    assert "Traceback" not in said
    assert "exception" not in said
    assert "reset" not in said
    assert number.name in said


@pytest.mark.parametrize(
    ("event", "states"),
    [("os.mkdir", []), pytest.param("shutil.rmtree", ["COMPLETED"], marks=pytest.mark.long)],
)
def test_a_signal_while_the_run_makes_or_removes_its_directory_leaves_nothing(
    start: Start, event: str, states: list[str]
) -> None:
    prefix = (sys.executable, str(PROGRAMS / "signalled.py"), event)
    run = start("nodes = 1", job("a", "true"), prefix=prefix)
    jobs = run.finish(code=128 + signal.SIGTERM)
    assert [one["state"] for one in jobs.values()] == states
    assert not run.leftovers("")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "says"), [("Endless", "did not decide within 0.5 s"), ("Failing", "nothing is left")]
)
def test_a_policy_that_goes_wrong_is_named_and_the_run_goes_on_under_fcfs(
    start: Start, name: str, says: str
) -> None:
    policy = f"policy = '{PROGRAMS / 'policies.py'}:{name}'"
    run = start(
        f"nodes = 2\npass_deadline_s = 0.5\n{policy}", job("a", "sleep 1.5"), job("b", "true", submit=0.1)
    )
    run.wait_for_text(says)
    assert run.process.poll() is None
    jobs = run.finish(code=1)
    assert {one["state"] for one in jobs.values()} == {"COMPLETED"}
    failed = [record for record in run.records() if isinstance(record, r.PolicyFailed)]
    assert [(one.policy, one.instead) for one in failed] == [(name.lower(), "fcfs")]
    said = (run.place / "stderr").read_text()
    assert says in said
    assert "the run goes on under fcfs" in said
    assert "Traceback" not in said


def test_a_signal_while_results_are_checked_ends_with_the_table(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start("nodes = 1", job("a", "true", verify=f"sh -c 'touch {flag}; exec sleep 1000'"))
    until(flag.exists, "the check")
    run.process.send_signal(signal.SIGTERM)
    ended = run.finish(code=128 + signal.SIGTERM)["a"]
    assert (ended["state"], ended["verified"]) == ("COMPLETED", None)
    assert "the run was ended by SIGTERM" in ended["unchecked"]


def test_under_a_policy_that_starts_nothing_fcfs_does(start: Start) -> None:
    run = start(f"nodes = 2\npolicy = '{PROGRAMS / 'policies.py'}:Idle'", job("a", "true"))
    assert run.finish(code=1)["a"]["state"] == "COMPLETED"
    assert "policy 'idle' is stuck" in (run.place / "stderr").read_text()


def test_a_signal_ends_a_run_whose_policy_never_decides(start: Start) -> None:
    policy = f"policy = '{PROGRAMS / 'policies.py'}:Endless'"
    run = start(
        f"nodes = 2\npass_deadline_s = 600\n{policy}", job("a", "sleep 600"), job("b", "true", submit=0.1)
    )
    run.wait_for_text("deciding for ever")
    run.process.send_signal(signal.SIGTERM)
    assert run.finish(code=128 + signal.SIGTERM)["a"]["state"] == "CANCELLED"
