"""Places that are processes: over sockets, with keys, killed for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest
import zmq
from harness import PROGRAMS

from pliant.apgas.keys import Keys
from pliant.apgas.messages import Codec, Hello
from pliant.apgas.runtime import Runtime
from pliant.apgas.sockets import Sockets
from pliant.apgas.threads import SystemThreads

PATIENCE_S = 60.0


def test_places_are_processes_and_one_may_be_killed() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "three_places.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "heard": 3 + 9 + 27 + 2,
        "array": True,
        "failed": 3,
        "lost": "place(2) is dead: the connection broke; it had tasks of this finish",
        "left": [0, 1],
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


def test_a_program_whose_place_does_not_come_says_so() -> None:
    code = (
        "import os, sys\n"
        "from pliant.apgas import run\n"
        "if 'PLIANT_PLACE' in os.environ: sys.exit(3)\n"
        "run(lambda: print('never'), places=2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PLIANT_DEADLINE": "3"},
    )
    assert done.returncode == 1
    assert "place(1) did not come within 3 s (PLIANT_DEADLINE)" in done.stderr
    assert "never" not in done.stdout
