"""A controller of a launch tree that may be killed and begun again: it tells in lines of JSON what happens.

    tree_root.py KEPT RUN BY GRACE DEGREE NODE ...

With a file KEPT of an earlier one it begins in its place. Lines on standard input: more NODE ..., run NODE COMMAND,
back NODE, finish.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import msgspec

from pliant.launch.tree import kept as keeping
from pliant.launch.tree.interfaces import controller_at
from pliant.launch.tree.kept import KeptRoot
from pliant.launch.tree.posting import Posting, Starting
from pliant.launch.tree.shell import TreeShell, end
from pliant.live.tree import messages as b
from pliant.model.world import MpiWorld
from pliant.protocol import codec
from pliant.protocol import messages as m


def print_json(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Root:
    def __init__(self, path: str, run: str, by: str, grace: str, degree: str, *nodes: str) -> None:
        self.path = Path(path)
        self.nodes = nodes
        earlier = keeping.read(self.path) if self.path.exists() else None
        self.kept = earlier or KeptRoot("", secrets.token_hex(16), degree, 0)
        self.starting = Starting(by, python=os.environ.get("PLIANT_TEST_AGENT", sys.executable))
        seat = b.Seat(0, "", -1, self.kept.tree, self.kept.tree, survive=True, grace_s=float(grace))
        self.tree = TreeShell(Posting(seat, "", run, self.kept.secret, "", self.starting, relays=True), self)
        self.orders: dict[int, int] = {}
        self.said: set[tuple[str, str]] = set()
        self.over = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        if self.kept.contact:
            self.tree.begin(
                asyncio.get_running_loop(), self.kept.host, port=self.kept.port, resumed=self.kept.resumed()
            )
        else:
            interface = os.environ.get("PLIANT_TEST_INTERFACE", "")
            contact = self.tree.begin(
                asyncio.get_running_loop(), controller_at(self.nodes, interface, self.starting)
            )
            self.keep(KeptRoot.opened(contact, self.kept.secret, self.kept.tree, self.nodes))
            self.tree.happened(b.Opened(self.nodes))
        print_json(event="begun", ranks=self.kept.nodes)
        asyncio.get_running_loop().add_reader(0, self.read)
        await self.over
        await end(self.tree)
        self.path.unlink()

    def keep(self, kept: KeptRoot) -> None:
        self.kept = kept
        keeping.write(self.path, kept)

    def read(self) -> None:
        data = os.read(0, 65536)
        if not data:
            asyncio.get_running_loop().remove_reader(0)
        for line in data.decode().splitlines():
            self.obey(line.split())

    def obey(self, words: list[str]) -> None:
        match words:
            case ["more", *nodes]:
                self.keep(self.kept.more(nodes))
                self.tree.happened(b.More(tuple(nodes)))
            case ["run", node, *command]:
                group = m.StartGroup(
                    7, 0, MpiWorld(0, (1,)), tuple(command), {}, "/", "/dev/null", "token", "none"
                )
                self.order(node, group)
            case ["back", node]:
                self.order(node, m.Shutdown())
            case ["finish"]:
                self.tree.happened(b.Finish())

    def order(self, node: str, message: m.ControllerMessage) -> None:
        rank = next(rank for rank, name in self.kept.nodes.items() if name == node)
        number = self.orders[rank] = self.orders.get(rank, 0) + 1
        self.tree.happened(b.Send(m.To((node,), codec.raw(message), number, number - 1)))

    # ---- the tree

    def arrived(self, come: b.Arrived) -> None:
        node, kind = come.envelope.node, msgspec.json.decode(come.envelope.message)["type"]
        if (node, kind) not in self.said:  # it is repeated, as nobody answers
            self.said.add((node, kind))
            print_json(event="said", node=node, type=kind)

    def gone(self, lost: b.Gone) -> None:
        self.keep(self.kept.gone(lost.rank))
        print_json(event="gone", node=lost.node, rank=lost.rank, why=lost.why)

    def again(self, started: b.Again) -> None:
        self.keep(self.kept.again(started))
        print_json(event="again", node=started.node, rank=started.rank)

    def leave(self, why: str) -> None:
        self.over.set_result(why)

    def deliver(self, message: msgspec.Raw) -> None: ...

    def local(self, envelope: b.Local) -> None: ...

    def gathered(self, put: b.Gathered) -> None: ...

    def phase(self, number: int) -> None: ...

    def adrift(self, *, on: bool) -> None: ...


async def main() -> None:
    await Root(*sys.argv[1:]).serve()


if __name__ == "__main__":
    asyncio.run(main())
