"""What a group's PMIx server asks of the job's other groups, and what they ask of it (``protocol/pmix.py``).

Worlds of one job differ in the last part of their namespace's name, which is their number.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

from pliant.launch.pmix import binding as b

Answer = dict[str, Any]
Finish = Callable[[Answer], None]
Ask = Callable[[Answer, Finish], int]
"""Ask this, and do that with the answer; called in any thread."""
PERSISTENCE, FIRST_READ = "pmix.pers", 1
WAIT = "pmix.wait"
SIDES = {"accept": "connect", "connect": "accept"}
NOBODY = b"nobody"
"""Whom one meets who waited in vain: Open MPI does not tell its other ranks that its root has not found the other side,
so that the root has to find one, with which nobody can connect."""
LONGEST = 1 << 19
"""Bytes in what is published or put: it has to fit into a line."""


class Others:
    """Of the server of this ``part`` of a world. What is answered libpmix learns in the thread that answers come in."""

    def __init__(self, space: b.Space, part: int, ask: Ask) -> None:
        self._job, _, world = space.name.rpartition("_")
        self._world = int(world) if world.isdigit() else 0
        self._space = space
        self._part = part
        self._ask = ask
        self._known: set[int] = {self._world}
        self._shown: dict[str, tuple[int, bytes]] = {}
        """What was published, by the name that its publisher looks up next."""

    def _name(self, world: int) -> str:
        return f"{self._job}_{world}" if world != self._world else self._space.name

    def _number(self, nspace: str) -> int:
        """Of the world that is called so, -1 if it is none of this job's."""
        if nspace == self._space.name:
            return self._world
        job, _, world = nspace.rpartition("_")
        return int(world) if job == self._job and world.isdigit() else -1

    # ---- what libpmix calls, in its own thread; ``back`` and ``data`` are for its answer ---------------

    def publish(  # noqa: PLR0913, PLR0917 - as libpmix calls it
        self, lib: b.Library, proc: Any, infos: Any, count: int, back: int, data: Any
    ) -> int:
        items, rank = b.entries(infos, count), proc[0].rank
        once = items.get(PERSISTENCE, (0, b"\0"))[1] == bytes([FIRST_READ])
        mine = {key: item for key, item in items.items() if not key.startswith("pmix.")}
        if any(kind not in {b.STRING, b.BYTES} for kind, _ in mine.values()):
            return b.NOT_SUPPORTED
        if sum(len(value) for _, value in mine.values()) > LONGEST:
            return b.NOT_SUPPORTED
        self._shown |= {_counterpart(key): item for key, item in mine.items() if _counterpart(key)}
        told = [
            {"key": key, "world": self._world, "rank": rank, "kind": kind, "blob": text(value), "once": once}
            for key, (kind, value) in mine.items()
        ]
        return self._ask({"type": "publish", "items": told}, lambda a: lib.over(back, data, status(a)))

    def look_up(  # noqa: PLR0913, PLR0917 - as libpmix calls it
        self, lib: b.Library, _proc: Any, keys: Any, infos: Any, count: int, back: int, data: Any
    ) -> int:
        wait = WAIT in b.entries(infos, count)
        names = b.keys_of(keys)
        shown = self._shown.pop(names[0], None)

        def finish(answer: Answer) -> None:
            if status(answer) and wait and shown:
                nobody = shown[1].replace(self._space.name.encode(), NOBODY)
                lib.found(back, data, b.OK, [((NOBODY.decode(), 0), names[0], shown[0], nobody)])
                return
            items = [
                ((self._name(each["world"]), each["rank"]), each["key"], each["kind"], blob(each["blob"]))
                for each in answer.get("items", ())
            ]
            lib.found(back, data, status(answer), items)

        return self._ask({"type": "lookup", "keys": names, "wait": wait}, finish)

    def unpublish(
        self, lib: b.Library, _proc: Any, keys: Any, _infos: Any, _count: int, back: int, data: Any
    ) -> int:
        ask = {"type": "unpublish", "keys": b.keys_of(keys) if keys else []}
        return self._ask(ask, lambda a: lib.over(back, data, status(a)))

    def meet(self, lib: b.Library, what: str, who: list[b.Member], mine: bytes, done: Finish) -> int:
        """Our members of those have come to this, with what they bring."""
        members = spans((self._number(nspace), rank) for nspace, rank in who)
        if len(mine) > LONGEST:
            return b.NOT_SUPPORTED

        def finish(answer: Answer) -> None:
            for world, sizes in answer.get("spaces", ()):
                if world not in self._known:
                    lib.register(b.Space(self._name(world), tuple(sizes)), None, "")
                    self._known.add(world)
            done(answer)

        return self._ask({"type": "meet", "what": what, "members": members, "blob": text(mine)}, finish)

    def modex(self, lib: b.Library, proc: Any, _infos: Any, _count: int, back: int, data: Any) -> int:
        world = self._number(proc[0].nspace.decode())
        ask = {"type": "modex", "world": world, "rank": proc[0].rank}
        return self._ask(ask, lambda a: lib.give(back, data, status(a), blobs(a)))

    # ---- what others want ----------------------------------------------------------------------------

    def want(self, lib: b.Library, rank: int) -> None:
        def tell(code: int, put: bytes) -> None:
            if len(put) > LONGEST:
                code, put = b.NOT_SUPPORTED, b""
            self._ask({"type": "got", "rank": rank, "status": code, "blob": text(put)}, lambda _: None)

        lib.put(self._space.name, rank, tell)

    def gone(self, lib: b.Library, world: int) -> None:
        """Nobody is left of this world."""
        if world in self._known - {self._world}:
            self._known.discard(world)
            lib.forget(self._name(world))


def _counterpart(key: str) -> str:
    """What Open MPI looks up when it has published this in MPI_Comm_accept or MPI_Comm_connect; else nothing."""
    port, _, side = key.rpartition(":")
    return f"{port}:{SIDES[side]}" if side in SIDES else ""


def spans(members: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Worlds and ranks in them as ranges, each with its first and the one behind its last; all ranks of a world are
    from 0 to -1."""
    found: list[tuple[int, int, int]] = []
    for world, rank in sorted(set(members)):
        if rank == b.EVERYBODY:
            found.append((world, 0, -1))
        elif found and found[-1][0] == world and found[-1][2] == rank:
            found[-1] = world, found[-1][1], rank + 1
        else:
            found.append((world, rank, rank + 1))
    return found


def status(answer: Answer) -> int:
    return int(answer.get("status", b.OK))


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def blob(data: str) -> bytes:
    return base64.b64decode(data)


def blobs(answer: Answer) -> bytes:
    """All that has been brought."""
    return b"".join(map(base64.b64decode, answer.get("blobs", ())))
