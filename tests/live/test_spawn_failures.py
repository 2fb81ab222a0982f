"""Failures in each phase of a resize by MPI_Comm_spawn, under a bare mpiexec: the job goes on at its old size with
correct data, or ends, as docs/resizing.md says; what it has printed says in which phase."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from harness import PROGRAMS
from test_resize_failures import own_memory

from pliant.apps.heat import solve_serial
from pliant_lab.measure.trials import MPIEXEC

pytestmark = pytest.mark.long

FORK = ("-launcher", "fork")
LIMIT_S = 150.0
DEADLINE_S = 12


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def phases(self) -> list[str]:
        """Those to which its first resize had come."""
        said = re.findall(r"^pliant: resizing at step (\d+): (\w+)$", self.err, re.MULTILINE)
        return [phase for step, phase in said if step == said[0][0]]

    @property
    def is_right(self) -> bool:
        return self.code == 0 and self.out.splitlines() == [solve_serial(64, 64, 40)]


@contextmanager
def ends_what_is_marked(mark: Path) -> Iterator[None]:
    """Whatever has ``mark`` in its environment is ended behind the block: Hydra leaves some that stand still."""
    wanted = f"BARE_KILLED={mark}".encode()
    try:
        yield
    finally:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)


def fails(where: Path, words: str, *launcher: str, prefix: tuple[str, ...] = (), **env: str) -> Ran:
    """Run the program whose processes fail as ``words`` say; Failure if it does not end."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PLIANT_")}
    every = {
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPIR_CVAR_CH4_NETMOD": "ofi",
        "PLIANT_DEADLINE": str(DEADLINE_S), "PLIANT_RESIZE_AT": "10:4,30:1",
    }  # fmt: skip
    mark = where / "one"
    env = {"BARE_KILLED": str(mark), **env}
    program = [sys.executable, str(PROGRAMS / "bare_killed.py"), *words.split(), str(mark)]
    command = [*prefix, str(MPIEXEC), *(launcher or FORK), "-n", "1", *program]
    with ends_what_is_marked(mark), (where / "out").open("w+") as out, (where / "err").open("w+") as err:
        process = subprocess.Popen(command, env={**own, **every, **env}, stdout=out, stderr=err)
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"{words}: not ended within {LIMIT_S:g} s: {(where / 'err').read_text()}")
    return Ran(code, (where / "out").read_text(), (where / "err").read_text())


GO_ON = {
    "old check full": "a rank of the job has fewer than 32 free file descriptors",
    "one begin raise": "not all of the groups 0, 1 have come up",
    "one begin stop": "not all of the groups 0, 1 have come up",
    "one report raise": "not all of the groups 0, 1 have come up",
    "one report 9": "not all of the groups 0, 1 have come up",
    "new report stop": "not all of the groups 0, 1 have come up",
}
"""What a newcomer may do before it has said that it is there."""


@pytest.mark.parametrize("beside", ["", "asynchronous"])
@pytest.mark.parametrize("words", GO_ON)
def test_newcomers_that_do_not_come_leave_the_job_as_it_is(words: str, beside: str, tmp_path: Path) -> None:
    ran = fails(tmp_path, words, PLIANT_RESIZE_STRATEGY=beside)
    assert ran.is_right, ran
    assert re.search(rf"pliant: at step \d+: the job stays at 1 rank: {GO_ON[words]}", ran.err), ran
    assert " from 1 to " not in ran.err
    if words == "old check full":
        assert ran.phases == ([] if beside else ["prepare"])
    else:
        assert "in the phase synchronise of a resize" in ran.err
        # What Python says of a newcomer may stand in the midst of them.
        assert ran.phases[-1] == "synchronise" or words.endswith("raise")


def test_a_process_that_starts_others_and_stands_still_costs_the_resize_alone(tmp_path: Path) -> None:
    """It and its newcomers are ended with the job, whose exit code is its own."""
    ran = fails(tmp_path, "old check starter", PLIANT_RESIZE_STRATEGY="asynchronous", PLIANT_DEADLINE="3")
    assert ran.is_right, ran
    assert "the job stays at 1 rank: the process that starts others says nothing: waited 12 s for" in ran.err
    assert " from 1 to " not in ran.err


def test_a_program_that_fails_ends_what_stands_still_as_well(tmp_path: Path) -> None:
    ran = fails(tmp_path, "old check starter,raise", PLIANT_RESIZE_STRATEGY="asynchronous")
    assert ran.code == 1, ran
    assert "RuntimeError: as it was told" in ran.err
    assert "pliant: the program failed; ending the job" in ran.err


ENDS = {
    "one report die": "synchronise",
    "one join die": "connect",
    "one connect die": "connect",
    "one merge die": "merge",
    "one state die": "reorder",
    "one data die": "redistribute",
    "old merge crash": "merge",
    "old settle crash": "redistribute",
    "new start stop": "start",
    "one start exit": "start",
    "one join 30": "connect",
    "one connect 30": "connect",
    "one data 15": "redistribute",
}


@pytest.mark.parametrize("words", ENDS)
def test_a_job_that_ends_has_said_in_which_phase(words: str, tmp_path: Path) -> None:
    """Not much later than its deadline, but for one that goes on only then. Of processes that fail side by side one
    may be a phase ahead of the root."""
    began = time.monotonic()
    ran = fails(tmp_path, words)
    # Where Hydra's proxies crash behind a killed process its exit code is 0 now and then, whatever it prints.
    assert ran.code != 0 or (words.endswith("die") and "BAD TERMINATION" in ran.out), ran
    assert ran.out.splitlines()[:1] != [solve_serial(64, 64, 40)]
    order = ["prepare", "start", "synchronise", "connect", "merge", "reorder", "redistribute", "commit"]
    assert ran.phases == order[: len(ran.phases)], ran
    assert abs(len(ran.phases) - 1 - order.index(ENDS[words])) <= 1, ran
    if words.endswith(("stop", "exit", "30", "15")):
        assert f"in the phase {ENDS[words]} of a resize" in ran.err, ran
        assert time.monotonic() - began > DEADLINE_S - 1


def test_a_process_that_starts_others_and_finds_none_alive_ends_the_job_in_its_phase(tmp_path: Path) -> None:
    ran = fails(tmp_path, "new start stop", PLIANT_RESIZE_STRATEGY="asynchronous")
    assert ran.code != 0, ran
    assert "in the phase start of a resize" in ran.err, ran


LAUNCHER = """#!/bin/sh
# As ssh: node b is there, and says nothing.
while [ "${1#-}" != "$1" ]; do shift; done
[ "$1" = b ] && exec sleep 600
shift
exec sh -c "$*"
"""


@pytest.mark.parametrize("beside", ["", "asynchronous"])
def test_a_node_that_does_not_answer_ends_the_job_in_its_phase(beside: str, tmp_path: Path) -> None:
    script = tmp_path / "launcher"
    script.write_text(LAUNCHER)
    script.chmod(0o700)
    launcher = ("-launcher", "ssh", "-launcher-exec", str(script), "-hosts", "a:1")
    ran = fails(
        tmp_path,
        "none at all",
        *launcher,
        PLIANT_RESIZE_AT="10:2,30:1",
        PLIANT_RESIZE_HOSTS="a:1,b:1",
        PLIANT_RESIZE_STRATEGY=beside,
    )
    assert ran.code != 0, ran
    assert re.search(r"waited 12 s for starting .* on b:1, in the phase start of a resize", ran.err), ran


def test_a_full_dev_shm_is_said_with_its_phase(tmp_path: Path) -> None:
    if why := own_memory():
        pytest.skip(f"a /dev/shm of its own cannot be mounted: {why}")
    fill = 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"'
    ran = fails(tmp_path, "old check fill", prefix=("unshare", "--mount", "sh", "-c", fill, "sh"))
    assert ran.is_right or ran.phases[-1] in ("start", "synchronise", "connect", "merge"), ran
