"""The PMIx server of one group: a process between libpmix and the agent.

    python -m pliant.launch.pmix.server DIRECTORY NAMESPACE SIZES PART

It is started before the group's ranks, with their environment, and talks to the agent over the descriptor PMI_FD in
lines of JSON (`protocol/pmix.py` has them). What it can answer itself it does: a fence that no other node takes part
in. All else is asked (`others.py`). It ends when the agent closes the connection, and imports nothing but Python's own.
"""

from __future__ import annotations

import json
import os
import queue
import select
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pliant.launch.pmix import binding as b
from pliant.launch.pmix.others import Answer, Finish, Others, blobs, status, text


class Server:
    """One group's. libpmix calls in a thread of its own: what follows from that is done in ours."""

    def __init__(self, folder: str, space: b.Space, part: int, agent: socket.socket) -> None:
        self._space = space
        self._part = part
        self._agent = agent
        self._folder = folder
        self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._awake, self._wake = os.pipe()
        self._asked: dict[int, Finish] = {}
        self._last = 0
        self._saying = threading.Lock()
        self._others = Others(space, part, self._ask_others)
        self._lib = self._load()

    def _load(self) -> b.Library:
        place = b.find(dict(os.environ))
        if place.prefix:
            os.environ.setdefault("PMIX_PREFIX", place.prefix)
            os.environ.setdefault("OPAL_PREFIX", place.prefix)
        others = self._others
        upcalls: b.Upcalls = {
            "connected": self._connected,
            "finalized": self._finalized,
            "abort": self._aborted,
            "fence": self._fence,
            "modex": lambda *a: others.modex(self._lib, *a),
            "publish": lambda *a: others.publish(self._lib, *a),
            "lookup": lambda *a: others.look_up(self._lib, *a),
            "unpublish": lambda *a: others.unpublish(self._lib, *a),
            "spawn": self._spawning,
            "connect": lambda *a: self._meet("connect", *a),
            "disconnect": lambda *a: self._meet("disconnect", *a),
            "register_events": lambda *_: b.DONE,
            "deregister_events": lambda *_: b.DONE,
        }
        return b.Library(place.library, self._folder, self._space.nodes[self._part], upcalls)

    def open(self) -> None:
        """Make the group known, and tell each of its ranks' environments."""
        self._lib.register(self._space, self._part, self._folder)
        os.environ.setdefault("OMPI_MCA_btl_sm_backing_directory", self._folder)  # it leaves its files behind
        names = ("PMIX_PREFIX", "OPAL_PREFIX", "OMPI_MCA_btl_sm_backing_directory")
        places = {name: os.environ[name] for name in names if name in os.environ}
        ranks = self._space.ranks(self._part)
        for rank in ranks:
            Path(self._folder, str(rank)).mkdir(mode=0o700, exist_ok=True)
        self._say("opened", env=[places | self._lib.admit(self._space.name, rank) for rank in ranks])

    def serve(self) -> None:
        """Until the agent closes the connection."""
        unread = b""
        while True:
            ready, _, _ = select.select([self._agent.fileno(), self._awake], [], [])
            if self._awake in ready:
                os.read(self._awake, 4096)
                while not self._todo.empty():
                    self._todo.get()()
            if self._agent.fileno() in ready:
                data = self._read()
                if not data:
                    return
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    self._told(json.loads(line))

    def _read(self) -> bytes:
        try:
            return self._agent.recv(1 << 18)
        except ConnectionResetError:  # it has not read all that we have said
            return b""

    def _told(self, order: Answer) -> None:
        kind = order["type"]
        if kind == "done":
            if (finish := self._asked.pop(order["id"], None)) is not None:
                finish(order)
        elif kind == "want":
            self._others.want(self._lib, order["rank"])
        elif kind == "gone":
            self._others.gone(self._lib, order["world"])

    # ---- to the agent --------------------------------------------------------------------------------

    def _say(self, kind: str, **fields: Any) -> None:
        with self._saying:
            self._agent.sendall(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def _later(self, what: Callable[[], None]) -> int:
        """Do it in our own thread."""
        self._todo.put(what)
        os.write(self._wake, b"x")
        return b.OK

    def _ask(self, kind: str, finish: Finish, **fields: Any) -> int:
        """Ask the agent, and do ``finish`` with what it answers."""

        def ask() -> None:
            self._last += 1
            self._asked[self._last] = finish
            self._say(kind, id=self._last, **fields)

        return self._later(ask)

    def _ask_others(self, what: Answer, finish: Finish) -> int:
        return self._ask("ask", finish, ask=what)

    # ---- what libpmix calls, in its own thread -------------------------------------------------------

    def _connected(self, proc: Any, *_: Any) -> int:
        self._say("initialized", rank=proc[0].rank)
        return b.DONE

    def _finalized(self, proc: Any, *_: Any) -> int:
        self._say("finalized", rank=proc[0].rank)  # at once: the rank may end before our thread has its turn
        return b.DONE

    def _spawning(self, proc: Any, *_: Any) -> int:
        self._say("spawning", rank=proc[0].rank)
        return b.OK  # it is never answered: the agent ends the group

    def _aborted(self, proc: Any, _object: Any, status: int, text: bytes, *_: Any) -> int:
        rank, said = proc[0].rank, (text or b"").decode(errors="replace")
        self._later(lambda: self._say("aborted", rank=rank, code=status, text=said))
        return b.DONE

    def _fence(  # noqa: PLR0913, PLR0917 - as libpmix calls it
        self, procs: Any, count: int, _i: Any, _n: int, data: Any, size: int, back: int, more: Any
    ) -> int:
        blob = b.content(data, size)
        who = b.members(procs, count)
        ranks = {rank for _, rank in who}

        def finish(answer: Answer) -> None:
            self._lib.give(back, more, status(answer), blobs(answer))

        if {nspace for nspace, _ in who} != {self._space.name}:
            return self._others.meet(self._lib, "fence", who, blob, finish)
        everybody = b.EVERYBODY in ranks or len(ranks) == sum(self._space.sizes)
        if ranks <= set(self._space.ranks(self._part)) or (everybody and len(self._space.sizes) == 1):
            return self._later(lambda: self._lib.give(back, more, b.OK, blob))
        if not everybody:
            return self._others.meet(self._lib, "fence", who, blob, finish)
        return self._ask("fence", finish, blob=text(blob))

    def _meet(self, what: str, procs: Any, count: int, _i: Any, _n: int, back: int, more: Any) -> int:
        who = b.members(procs, count)
        return self._others.meet(self._lib, what, who, b"", lambda a: self._lib.over(back, more, status(a)))


def main() -> None:
    folder, nspace, sizes, part = sys.argv[1:]
    agent = socket.socket(fileno=int(os.environ["PMI_FD"]))
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    space = b.Space(nspace, tuple(map(int, sizes.split(","))))
    try:
        server = Server(folder, space, int(part), agent)
        server.open()
    except (b.PmixError, OSError) as error:
        agent.sendall(json.dumps({"type": "failed", "error": str(error)}).encode() + b"\n")
    else:
        server.serve()
    sys.stdout.flush()
    os._exit(0)  # libpmix has threads, and its ranks are gone


if __name__ == "__main__":
    main()
