"""How new worlds become one communicator, and which rank each process has in the end: Martín-Álvarez et al. 2025,
sections 4.4 and 4.5.

The paper has one port a group. Then a group that skips a round, the middle of an odd number, can be accepted in place
of another that is late; so here each round has ports of its own.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from pliant.plan.spawn import Method, SpawnPlan


class WorldConnection(NamedTuple):
    """The root of world ``accepting`` accepts that of ``connecting`` on the port stored at ``key``; both then merge,
    the accepting side low, and go by the number of ``accepting``.

    ``low`` and ``high``: the worlds that each side consists of by then, in the order of their ranks.
    """

    round: int
    accepting: int
    connecting: int
    key: str
    low: tuple[int, ...]
    high: tuple[int, ...]


class ConnectRound(NamedTuple):
    """``connections`` go on at the same time; ``skips``: the world that waits for the next round, if one does."""

    number: int
    connections: tuple[WorldConnection, ...]
    skips: int | None


class ConnectionPlan(NamedTuple):
    """Rounds, from 1; ``order``: the worlds by rank in the communicator that they end in; ``source_key``: where the
    sources' port is stored, to which that communicator connects at last."""

    rounds: tuple[ConnectRound, ...]
    order: tuple[int, ...]
    source_key: str

    def opened_by(self, world: int) -> tuple[str, ...]:
        """The keys of the ports that ``world`` opens before it says that it is ready."""
        every = (connection for round_ in self.rounds for connection in round_.connections)
        return tuple(connection.key for connection in every if connection.accepting == world)


def connection_plan(worlds: int, resize: int) -> ConnectionPlan:
    """The binary connection of ``worlds`` worlds, numbered from 0; ValueError if there are none."""
    if worlds < 1:
        raise ValueError(f"{worlds} worlds to connect: at least 1")
    made: list[tuple[int, ...]] = [(world,) for world in range(worlds)]
    rounds: list[ConnectRound] = []
    while len(made) > 1:
        number, half = len(rounds) + 1, len(made) // 2
        connections = tuple(
            WorldConnection(number, low, high, f"r{resize}/port/{number}/{low}", made[low], made[high])
            for low, high in ((low, len(made) - 1 - low) for low in range(half))
        )
        rounds.append(ConnectRound(number, connections, half if len(made) % 2 else None))
        made[: len(made) - half] = [
            *(each.low + each.high for each in connections),
            *made[half : len(made) - half],
        ]
        del made[-half:]
    return ConnectionPlan(tuple(rounds), made[0], f"r{resize}/port/sources")


def first_ranks(plan: SpawnPlan) -> tuple[int, ...]:
    """Of each group: the rank that its first process has after the resize. Its others follow (Equation 9)."""
    before = plan.sources if plan.method is Method.MERGE else 0
    return tuple(accumulate((group.size for group in plan.groups), initial=before))[:-1]


def new_rank(plan: SpawnPlan, group: int, rank: int) -> int:
    """The rank after the resize of the process that is ``rank`` in ``group``; ValueError if there is none."""
    if not 0 <= group < len(plan.groups) or not 0 <= rank < plan.groups[group].size:
        raise ValueError(f"no process {rank} of group {group} in a plan of {len(plan.groups)} groups")
    return first_ranks(plan)[group] + rank
