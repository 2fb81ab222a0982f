"""The agent's end of a warm process (`launch/warm.py`): starts it, and has it fork ranks."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence

from pliant.launch import warm
from pliant.launch.starter import Starter, Streams
from pliant.live.node.messages import StartHelper
from pliant.model.deadlines import WARM_ANSWER_S

PROGRAM = (
    "(lambda sys, first: (sys.flags.safe_path or sys.path.pop(0),"  # else it would import from where the job is
    ' __import__("pliant.launch.warm", fromlist=["serve"]).serve(first)))'
    '(__import__("sys"), frozenset(__import__("sys").modules))'
)
ROOM_NAME = "PLIANT_ROOM"


class NotWarm(Exception):  # noqa: N818 - no error: what cannot be forked is executed
    """The process did not start the rank. ``broken``: it will start no other either."""

    def __init__(self, why: str, *, broken: bool) -> None:
        super().__init__(why)
        self.broken = broken


class WarmProcess:
    """One warm process: a starter of ranks that may refuse."""

    def __init__(self, starter: Starter, order: StartHelper, env: Mapping[str, str]) -> None:
        """Start it with ``starter``, which says what goes wrong."""
        room = " " * warm.ROOM
        argv = (*order.interpreter, "-c", PROGRAM, *order.modules, room)
        self.orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.orders.setblocking(False)
        try:
            self.pid = starter.start(argv, {**env, ROOM_NAME: room}, order.cwd, Streams(os.devnull), theirs)
        except BaseException:
            self.orders.close()
            raise
        finally:
            theirs.close()

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        streams: Streams,
        pmi: socket.socket | None,
    ) -> int:
        """As a Starter's: fork one rank, which is this process' child from then on; its pid. NotWarm if that cannot be,
        and then nothing of it is there, or will be."""
        if streams.errors or streams.stdin:
            raise NotWarm("it has files of its own for input or errors", broken=False)
        order = warm.Order(list(argv), dict(env), cwd, streams.output, os.getpid(), pmi is not None)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            numbers = [theirs.fileno(), *([pmi.fileno()] if pmi is not None else [])]
            try:
                with theirs:
                    data = json.dumps(order._asdict()).encode()
                    if len(data) > warm.LONGEST:
                        raise NotWarm("its command and environment are too long", broken=False)
                    socket.send_fds(self.orders, [data], numbers)
                ours.settimeout(WARM_ANSWER_S)
                answer = ours.recv(4096)
                word, _, number = answer.partition(b" ")
                if word == warm.READY:
                    ours.send(warm.GO)
                    return int(number)
            except OSError as error:
                raise NotWarm(f"the warm process does not answer: {error}", broken=True) from error
        raise NotWarm(answer.decode(errors="replace") or "the warm process has ended", broken=not answer)

    def close(self) -> None:
        self.orders.close()
