"""An agent of a launch tree. Whoever starts it tells it on its standard input where it belongs (`posting.py`)."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from pliant.launch.tree import links, posting
from pliant.launch.tree.agent import NodeHouse, move_in, move_out, serve_node
from pliant.launch.tree.interfaces import InterfaceError, listening_at
from pliant.launch.tree.posting import Posting
from pliant.model.errors import PliantError


def main(told: int = -1) -> None:
    """Be an agent. ``told``: a pipe for one that goes on when what has started it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the launcher's to handle
    try:
        mine = posting.read()
    except (PliantError, OSError) as error:
        sys.exit(f"pliant: {error}")
    try:
        parent, host = _call(mine)
        door = move_in(mine)
    except (PliantError, OSError) as error:
        move_out(mine)
        sys.exit(f"pliant: {error}")
    if told >= 0:
        _go_on(told)
    ours, theirs = socket.socketpair()
    tree = os.getpid()
    if not (pid := os.fork()):
        ours.close()
        parent.close()
        # For programs of places: where others reach this node.
        os.environ.setdefault("PLIANT_PLACE_HOST", host)
        _end_after(lambda: serve_node(mine, theirs, door, tree))
    theirs.close()
    door.close()
    _end_after(lambda: NodeHouse(mine, pid, ours).serve(host, parent))


def _go_on(told: int) -> None:
    """Have nothing of what has started this process, and have that end well."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
    sys.stderr = sys.stdout
    os.write(told, b"\n")
    os.close(told)


def _end_after(work: Callable[[], None]) -> NoReturn:
    """End without taking the interpreter apart, which would take a quarter of the processor time of an agent's life."""
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - told, and then it ends
        import traceback  # slow to load

        with suppress(OSError):
            traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # who has started it may have ended
            stream.flush()
    os._exit(code)


def _call(mine: Posting) -> tuple[socket.socket, str]:
    """The link to the parent, and where others reach this one."""
    try:
        parent = links.call(mine.parent, mine.seat.rank, mine.secret, patient=not mine.seat.parent)
    except OSError as error:
        raise PliantError(
            f"{mine.node} does not reach {mine.parent}, which has started it: {error}"
        ) from error
    here = str(parent.getsockname()[0])
    try:
        return parent, listening_at(mine.listen, here) if mine.listen else here
    except InterfaceError as error:
        parent.close()
        raise PliantError(f"{mine.node}: {error}") from error
