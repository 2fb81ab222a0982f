"""What nobody should say: over sessions, over links, and by whoever has the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pliant.live.cluster import orders as o
from pliant.model.world import MpiWorld as Ranks
from pliant.protocol import messages as m
from pliant.protocol.codec import MAX_LINE, encode, raw
from pliant_lab.injection.standins.node import NONSENSE, USER
from pliant_lab.injection.standins.process import Proc

if TYPE_CHECKING:
    from pliant_lab.injection.standins.driver import Link
    from pliant_lab.injection.world import World

NOWHERE = "nowhere"
NO_JOB = 1 << 30
UNREADABLE = b'{"type":' + NONSENSE + b"}"


def to_agent(world: World, proc: Proc) -> None:
    """What is no message of a job's, over a connection of its own."""
    random, node = world.random, world.roster.nodes[proc.node.name]
    hello = encode(m.Hello(proc.job, proc.group, 0, random.choice(["", "guessed"]), 1))
    said = [
        b"\n\n", b"garbage\n", b'{"type":"done"}\n', b"\xff\xfe\n", b"{" * 50 + b"\n", hello,
        encode(m.Progress(0, 1.0)), b"x" * (MAX_LINE + 2) + b"\n",
    ]  # fmt: skip
    if random.random() < 0.5:
        node.said_by_a_stranger(random.choice(said))
    else:
        node.said_by_a_stranger(random.choice([b"", b'{"type":', hello]), random.choice([USER, USER + 1]))


def down(world: World, link: Link) -> None:
    """Orders that cannot be followed."""
    name = link.node.name
    ranks = Ranks(0, (1,))
    orders = [
        m.To((name,), msgspec.Raw(UNREADABLE)),
        m.To((name, NOWHERE), raw(m.Error("this is for others as well"))),
        m.To((name,), raw(m.Signal(NO_JOB, 9))),
        m.To((name,), raw(m.Deliver(NO_JOB, 0, 1, raw(m.Stay())))),
    ]
    if not world.outside.grace:  # else it tells for ever that it could not start what nobody has asked for
        for world_of, argv, dialect in (
            (ranks, ("x",), "unheard of"), (Ranks(0, (1,), 1), ("x",), "none"), (ranks, (), "none"),
        ):  # fmt: skip
            start = m.StartGroup(NO_JOB, 0, world_of, argv, {}, "", "", "token", dialect)
            orders.append(m.To((name,), raw(start)))
    link.agent.audit.garbled = True
    link.down.send(encode(world.random.choice(orders)))


def up(world: World, link: Link) -> None:
    """What no agent says."""
    said = [
        UNREADABLE,
        b'{"type":"started"}',
        encode(m.Started(NO_JOB, 0, (1,))),
        encode(m.Proof(NO_JOB, clean=True)),
    ]
    world.head.tell(o.Said(link.node.name, msgspec.Raw(world.random.choice(said))))


def of_nodes(world: World) -> None:
    """News of nodes that have never been granted, or are ours no more."""
    state = world.head.cluster.core.state
    gone = [name for number, name in state.nodes.names.items() if not state.nodes.all_mask >> number & 1]
    name = world.random.choice([NOWHERE, *gone])
    news: list[o.AnyInput] = [
        o.Back(name), o.Unlinked(name), o.Lost(name), o.Lost(name, final=True), o.Cut(name, ""), o.Ended(name, ""),
        o.Cleared(name), o.TakenAway(NOWHERE),
    ]  # fmt: skip
    if name != NOWHERE:
        news.append(o.Returned((name,)))
    world.head.tell(world.random.choice(news))
