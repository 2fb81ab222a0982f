"""Places that are processes: over sockets, with keys, killed for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zmq
from harness import PROGRAMS, BatchRun, job, pliant, until

from pliant.apgas.place.messages import Codec, Hello
from pliant.apgas.runtime import Runtime
from pliant.apgas.transport.keys import Keys
from pliant.apgas.transport.sockets import END_S, Sockets
from pliant.apgas.transport.threads import SystemThreads
from pliant.core import records as r

PATIENCE_S = 60.0


def told(program: str) -> dict[str, Any]:
    """What a program of places prints."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / program)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_places_are_processes_and_one_may_be_killed() -> None:
    assert told("three_places.py") == {
        "heard": 3 + 9 + 27 + 2,
        "array": True,
        "failed": 3,
        "lost": "place(2) is dead: the connection broke; it had tasks of this finish",
        "left": [0, 1],
    }


def test_a_place_that_is_given_up_ends_with_an_error() -> None:
    """Its agent would take it for one that has left in good order, and its job would be waited for in vain."""
    code = (
        "from pliant.apgas import run\n"
        "from pliant.apgas.runtime import current\n"
        "try: run(lambda: current().lost(1, 'its connection broke'), places=2)\n"
        "except SystemExit as end: print('ended', end.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ended 1\n"), done.stderr


def test_places_that_die_at_the_end_are_not_waited_for() -> None:
    """Neither one that was connected, nor one that has never been."""
    code = (
        "import os\n"
        "from pliant.apgas import at, place, run\n"
        "from pliant.apgas.runtime import current\n"
        "def main():\n"
        "    os.kill(at(place(1), os.getpid), 9)\n"
        "    with current().monitor:\n"
        "        current().machine.members.join({9: 'tcp://127.0.0.1:1'})\n"
        "run(main, places=3)\n"
    )
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun < END_S


def test_a_place_that_stands_still_for_seconds_loses_nothing() -> None:
    """Each listens at an address of its own."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "stalled.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "stood_still": True,
        "exact": True,
        "places": [0, 1, 2],
        "hosts": ["127.0.0.2", "127.0.0.3"],
    }


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("0.0.0.0", "PLIANT_PLACE_HOST is '0.0.0.0'; it must be the IP address at which"),  # noqa: S104
        ("node7", "PLIANT_PLACE_HOST is 'node7'; it must be the IP address at which"),
        ("192.0.2.1", "place(0) cannot listen at 192.0.2.1 (PLIANT_PLACE_HOST): "),
    ],
)
def test_an_address_where_no_place_can_be_reached_is_refused(host: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from pliant.apgas import run; run(lambda: print('never'), places=2)"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PLIANT_PLACE_HOST": host},
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "never" not in done.stdout


def test_places_find_each_other_by_ipv6() -> None:
    """A child that a place has forked has none of its connections."""
    code = (
        "import os\n"
        "from pliant.apgas import at, places, run\n"
        "from pliant.apgas.transport.sockets import _connections\n"
        "def there():\n"
        "    if not (child := os.fork()):\n"
        "        os._exit(len([1 for _ in _connections()]))\n"
        "    ends = {end for _, both in _connections() for end in both}\n"
        "    return all(end.startswith('tcp://[::1]:') for end in ends), len(ends) > 1, os.waitpid(child, 0)[1]\n"
        "run(lambda: print({at(place, there) for place in places()}), places=3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, "PLIANT_PLACE_HOST": "::1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "{(True, True, 0)}\n"), done.stderr


def test_an_executor_sends_no_variables_of_the_script_and_all_its_futures_end() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "futures_script.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    ends = ["SystemExit", "ValueError", "ValueError", "OwnError"]
    assert json.loads(first) == {
        "seen": [[False, True], [True, True], [False, True]],
        "fib": 13,
        "ends": ends,
        "scaled": [21, 7],
        "elsewhere": ends,
        "array": True,
        "lost": True,
        "after": 2,
    }
    assert last == "made after the end of main"


def test_futures_are_worked_on_at_all_places() -> None:
    assert told("futures.py") == {
        "workers": 3,
        "squares": True,
        "places": [0, 1, 2],
        "raised": "invalid literal for int() with base 10: 'x'",
        "unpicklable": ["TypeError"] * 3,
        "lost": ["place(2) is dead: the connection broke"],
        "workers_left": 2,
        "after": 1024,
        "cancelled": 7,
        "closed": "cannot schedule new futures after shutdown",
    }


def test_a_team_adds_up_and_hears_of_a_place_that_is_killed() -> None:
    whole = (1 << 20) * (0 + 1 + 2 + 1) + (1 << 20) - 1
    assert told("teams.py") == {"sums": [whole], "times": 3, "heard": [1, 1], "lost": [1], "dead": True}


def test_what_a_task_forks_is_no_place_and_keeps_nothing_of_it_open() -> None:
    """Otherwise a place whose child lives on would count as alive for 30 s."""
    assert told("forking.py") == {
        "said": ["that a task has forked is none 7"],
        "pool": [1, 2],
        "goes_on": True,
        "end_of_file": True,
        "closed_output": 0,
        "lost": True,
    }


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_stranger_is_refused_and_counted(encrypted: bool) -> None:  # noqa: FBT001
    runtime = Runtime(0, SystemThreads(), 1)
    keys = Keys.make()
    sockets = runtime.transport = Sockets(runtime, keys)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    try:
        stranger.routing_id = b"p7"
        stranger.sndhwm = 0
        if encrypted:  # with keys of its own, which are not the program's
            public, secret = zmq.curve_keypair()
            stranger.curve_serverkey = keys.server_public.encode("ascii")
            stranger.curve_publickey, stranger.curve_secretkey = public, secret
        stranger.connect(sockets.address)
        stranger.send(Codec().encode(Hello("tcp://nowhere")))
        limit = time.monotonic() + PATIENCE_S
        while not sockets.refused:
            assert time.monotonic() < limit, "nobody was refused"
            threading.Event().wait(0.01)
        assert not runtime.machine.arrived
    finally:
        stranger.close(linger=0)
        context.term()
        sockets.close()


def _has_changed(run: BatchRun, times: int, job: int = 1) -> bool:
    return sum(isinstance(record, r.ResizeDone) and record.job == job for record in run.records()) == times


def test_a_job_of_places_grows_and_shrinks_while_it_computes(
    start: Callable[..., BatchRun], tmp_path: Path
) -> None:
    """It ends with the exact result, and with the places that it had last."""
    hurry = tmp_path / "hurry"
    program = f"python {PROGRAMS / 'balanced.py'} 8 9 0.005 {hurry}"
    run = start('nodes = 3\npolicy = "easy"', job("tree", program, "{ min = 1, max = 3 }", kind="places"))
    run.wait_for(r.JobMalleable)
    for number, size in enumerate((3, 1, 3, 2), 1):
        ordered = run.order("tree", str(size))
        assert ordered.returncode == 0, ordered.stderr
        until(partial(_has_changed, run, number), f"a change to {size}")
    stays = "that job has place 0 on n0, which runs its program: that one stays until the job ends\n"
    assert pliant(run, "nodes", "remove", "n0").endswith(f"n0 when job 1 (tree) has left it: {stays}")
    hurry.touch()
    tree = run.finish()["tree"]
    assert (tree["state"], tree["result"]) == ("COMPLETED", "37705 22582506079888477"), run.story()
    assert [change["to"] for change in tree["resizes"] if change["outcome"] == "done"] == [3, 1, 3, 2]
    assert set(tree["places"]) == {"0", "1", "2", "3", "4"}
    assert all(did["calls"] > 0 for did in tree["places"].values())


@pytest.mark.long
def test_a_resilient_job_of_places_goes_on_without_one_that_is_killed(start: Callable[..., BatchRun]) -> None:
    program = f"python {PROGRAMS / 'balanced.py'} 8 8 0.002 resilient"
    nodes = "{ min = 1, max = 3, preferred = 3 }"
    run = start('nodes = 3\npolicy = "easy"', job("tree", program, nodes, kind="places"))
    run.wait_for(r.JobMalleable)
    [victim] = [pid for pid, cookie in run.ranks(1).items() if cookie["PLIANT_NODE"] == "n1"]
    os.kill(victim, signal.SIGKILL)
    lost = run.wait_for(r.GroupsLost)
    assert (lost.groups, lost.root) == ((1,), 0)
    tree = run.finish()["tree"]
    assert (tree["state"], tree["result"]) == ("COMPLETED", "12624 49101412822494977"), run.story()


def test_a_program_asks_for_places_and_gives_them_back(start: Callable[..., BatchRun]) -> None:
    program = f"python {PROGRAMS / 'wishes.py'}"
    nodes = "{ min = 1, max = 3 }"
    run = start(
        'nodes = 3\npolicy = "easy"', job("own", program, nodes, kind="places", **{"class": "evolving"})
    )
    own = run.finish()["own"]
    assert own["state"] == "COMPLETED", run.story()
    asked = ["pre_grow 2", "post_grow 2 [1, 2]", "pre_shrink 1", "post_shrink 1 [2]"]
    assert own["result"] == f"[0, 1, 2] {asked}"


def test_a_wish_during_a_resize_is_said_after_it(start: Callable[..., BatchRun]) -> None:
    program = f"python {PROGRAMS / 'hasty.py'}"
    run = start(
        'nodes = 2\npolicy = "easy"',
        job("hasty", program, "{ min = 1, max = 2 }", kind="places", **{"class": "evolving"}),
    )
    hasty = run.finish()["hasty"]
    assert (hasty["state"], hasty["result"]) == ("COMPLETED", "came [1] left [1]"), run.story()


def test_a_resize_that_meets_the_end_of_being_malleable_is_late_and_not_failed(
    start: Callable[..., BatchRun],
) -> None:
    program = f"python {PROGRAMS / 'disables.py'}"
    run = start('nodes = 2\npolicy = "easy"', job("ends", program, "{ min = 1, max = 2 }", kind="places"))
    run.wait_for(r.JobMalleable)
    ordered = run.order("ends", "2")
    assert ordered.returncode == 0, ordered.stderr
    assert run.finish()["ends"]["state"] == "COMPLETED", run.story()
    failed = run.wait_for(r.ResizeFailed)
    assert (failed.error, failed.late) == ("the loop has ended", True)


@pytest.mark.long
def test_futures_are_exact_while_places_come_and_leave(start: Callable[..., BatchRun]) -> None:
    """One job grows and shrinks by its own load, the other one when it is told to."""
    nodes = "{ min = 1, max = 2, preferred = 1 }"
    program = f"python {PROGRAMS / 'executor.py'}"
    run = start(
        'nodes = 4\npolicy = "easy"',
        job("follow", f"{program} follow", nodes, kind="places", **{"class": "evolving"}),
        job("obey", f"{program} obey", nodes, kind="places"),
    )
    run.wait_for(r.JobMalleable, lambda record: record.job == 2)
    for times, size in enumerate(("2", "1"), 1):
        ordered = run.order("obey", size)
        assert ordered.returncode == 0, ordered.stderr
        until(partial(_has_changed, run, times, 2), f"a change to {size}")
    jobs = run.finish()
    assert jobs["follow"]["result"] == "exact True, at [0, 1]", run.story()
    assert jobs["obey"]["result"] == "exact True, at [0, 1], sizes [1, 2, 1], raised ValueError", run.story()
