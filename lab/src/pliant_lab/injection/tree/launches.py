"""Launches over a tree, drawn from a seed, and what must hold at the end of each."""

from __future__ import annotations

import random
from functools import partial

from pliant.protocol import launching as t
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.tree.forest import Agent, Forest, Ground
from pliant_lab.injection.tree.tenants import Landlord, code_of, complaint_of, lines_of

MOST, FEW = 60, 12
"""Agents. Where there are few, more of what happens meets in one place."""
TREES = ("1", "2", "3", "8", "32", "binomial", "direct")
KILLED = -9
OVER = "all is done"
ALONE = 0.4
"""The share of launches with losses that have a single one."""
MISSED = 0.1
"""The share of worlds in which a node ends while others wait for it at a fence."""
HARMS = ("cut", "cut above", "sender", "receiver")
LATE_NOTICE_S = 5.0
"""One end of a link may learn so much later than the other that it is broken."""
AGENT_S = 0.6
"""In so long an agent is there, where nothing happens to any."""
PHASES = ("Calling", "Below", "Contacts", "Flood")
"""What is said in a launch; faults lie in wait for each of them."""
LATE_S = 40.0
"""When the last fault happens; a silent agent is noticed after 30 s."""


def launch(seed: int, number: int = 0, *, disturbed: bool = True) -> None:
    """One launch, with losses if it is ``disturbed`` and the seed says so; Violation if something is wrong at its end.
    Those with a ``number`` are small."""
    draw = random.Random(f"launch {seed} {number}")  # noqa: S311 - to be repeated
    most = FEW if number else MOST
    agents, disturbed = draw.randint(1, most), disturbed and draw.random() < 0.75
    survive = draw.random() < 0.75
    trees = draw.choice(TREES), draw.choice(TREES)
    forest = Forest(
        100 * seed + number, Ground(agents, *trees, window=draw.choice((1, 4, 32)), survive=survive)
    )
    if disturbed:
        disturb(forest, draw)
    if draw.random() < 0.5:
        change(forest, draw)
    forest.open()
    forest.run(draw.uniform(0, 5))
    sizes, dialect = _sizes(draw, agents), draw.choice(("launch", "launch", "pmi1"))
    landlord = forest.launch(t.Launch(("true",), {}, "/", sizes, dialect))
    for _ in range(draw.randint(0, 20)):
        forest.later(
            draw.uniform(0, draw.choice((2, 8, LATE_S))), partial(_type, landlord, forest, draw.random())
        )
    if dialect == "pmi1":
        _fence(forest, draw, disturbed=disturbed)
    forest.run()
    settled(forest)
    if survive or not forest.gone:
        _done(forest, landlord)
    forest.finish(OVER)
    forest.run()
    if left := [rank for rank, agent in forest.agents.items() if agent.alive]:
        raise Violation("leaked", f"the launch is over, and the agents of ranks {left} are there")
    ends = {agent.left for rank, agent in forest.agents.items() if rank not in forest.silent}
    if not (forest.losses or forest.gone or ends == {OVER}):
        raise Violation("wrong", f"the launch is over, and agents have left as {ends}")
    if forest.links:
        raise Violation("leaked", f"the launch is over, and there are the links {forest.links}")


def _sizes(draw: random.Random, agents: int) -> tuple[int, ...]:
    """How many processes each agent has; at least one has any."""
    sizes = [draw.choice((0, 1, 1, 1, 3)) for _ in range(agents)]
    return tuple(sizes) if any(sizes) else (1,) * agents


def _done(forest: Forest, landlord: Landlord) -> None:
    """Violation unless the program has run to its end everywhere where nothing was lost, and all that it has written
    has come, once and in order."""
    launching = landlord.launching
    if not launching.is_over:
        raise Violation("stuck", f"of {launching.ranks} processes {launching.ended.keys()} have ended")
    launched = [(rank, end) for rank, end in launching.ended.items() if rank < launching.ranks]
    for rank, (node, code, _) in launched:
        where = forest.first_of(node)
        written, printed = lines_of(rank), landlord.printed.get(rank, b"")
        if code == code_of(rank):
            if printed != written:
                raise Violation("lost", f"process {rank} has written {written!r}, and {printed!r} has come")
        elif not written.startswith(printed):
            raise Violation("wrong", f"process {rank} has written {written!r}, and {printed!r} has come")
        elif where not in forest.gone and not (code == KILLED and launching.killed):
            raise Violation("wrong", f"process {rank} on {node} has ended with {code}, not {code_of(rank)}")
    for node, typed in landlord.typed.items():
        rank = forest.rank_of(node)
        if rank not in forest.gone and (came := forest.agents[rank].tenant.typed) != typed:
            raise Violation("lost", f"{node} was sent {typed}, and {came} has come")
    _ended_together(landlord)
    _spawned(forest, landlord)
    _complained(forest, landlord)
    counted = {forest.rank_of(node) for node in launching.counted}
    if missing := set(forest.agents) - {0} - counted - forest.gone.keys():
        raise Violation("lost", f"the agents of ranks {missing} have not said what it was like")


def _spawned(forest: Forest, landlord: Landlord) -> None:
    """Violation unless the processes that were spawned have ended with 0, or were lost or ended."""
    launching = landlord.launching
    for process, (node, code, _) in launching.ended.items():
        may_fail = forest.first_of(node) in forest.gone or (code == KILLED and launching.killed)
        if process >= launching.ranks and code and not may_fail:
            raise Violation("wrong", f"process {process}, which was spawned, has ended with {code}")


def _complained(forest: Forest, landlord: Landlord) -> None:
    """Violation unless people were told once what each node had to say."""
    for node in landlord.launching.started:
        rank = forest.first_of(node)
        if rank not in forest.gone and landlord.notes.count(f"{node}: {complaint_of(rank)}") != 1:
            raise Violation("lost", f"{node} has complained, and people were told {landlord.notes}")


def _ended_together(landlord: Landlord) -> None:
    """Violation unless the processes of one world were ended exactly if one of them had failed."""
    launching = landlord.launching
    failed = any(end.code for end in launching.ended.values())
    if launching.killed != (failed and landlord.is_one_world):
        raise Violation(
            "wrong", f"processes ended as {launching.ended}; they were killed: {launching.killed}"
        )


def disturb(forest: Forest, draw: random.Random) -> None:
    ranks = range(1, forest.ground.agents + 1 + draw.choice((0, 0, 3)))
    if draw.random() < ALONE:
        draw.choice((_kill_some, _cut_some, _wait_for_some))(forest, draw, 1)
        return
    forest.unreachable = {draw.choice(ranks) for _ in range(draw.randint(0, 3))}
    forest.mute = {draw.choice(ranks) for _ in range(draw.choice((0, 0, 0, 1)))}
    forest.silent = {draw.choice(ranks) for _ in range(draw.randint(0, 2))}
    _kill_some(forest, draw, draw.randint(0, 4))
    _cut_some(forest, draw, draw.randint(0, 6))
    _wait_for_some(forest, draw, draw.randint(0, 3))


def _kill_some(forest: Forest, draw: random.Random, count: int) -> None:
    for _ in range(count):
        rank = draw.randint(1, forest.ground.agents)
        forest.later(draw.uniform(0, draw.choice((3, LATE_S))), partial(forest.kill, rank))


def _cut_some(forest: Forest, draw: random.Random, count: int) -> None:
    for _ in range(count):
        cut = partial(_cut_one, forest, draw.random(), draw.choice((0.0, draw.uniform(0, LATE_NOTICE_S))))
        forest.later(draw.uniform(0, draw.choice((2, 8, LATE_S))), cut)


def _wait_for_some(forest: Forest, draw: random.Random, count: int) -> None:
    for _ in range(count):
        kind, number = draw.choice(PHASES), draw.randint(1, 2 * forest.ground.agents)
        late_s = draw.choice((0.0, LATE_NOTICE_S))
        forest.ambushes[kind, number] = partial(_strike, forest, draw.choice(HARMS), late_s)


def _fence(forest: Forest, draw: random.Random, *, disturbed: bool) -> None:
    """A node that never comes to it, and faults while what was put is on its way."""
    if draw.random() < MISSED:
        forest.missing = draw.randrange(forest.ground.agents)
    for _ in range(draw.choice((0, 1, 1, 3)) if disturbed else 0):
        late_s = draw.choice((0.0, LATE_NOTICE_S))
        strike = partial(_strike, forest, draw.choice(HARMS), late_s)
        forest.ambushes["Gathered", draw.randint(1, 3 * forest.ground.agents)] = strike


def change(forest: Forest, draw: random.Random) -> None:
    """Nodes are added, new ones or such that were given back, and given back where that is no loss."""
    ranks = range(1, forest.ground.agents + 8)
    for number in range(draw.randint(0, 4)):
        more = [f"new{number}.{i}" for i in range(draw.randint(1, 2))]
        forest.later(draw.uniform(0, draw.choice((3, LATE_S))), partial(_add, forest, more, draw.random()))
    for _ in range(draw.randint(0, 5) if forest.ground.survive else 0):
        forest.later(draw.uniform(0, draw.choice((3, LATE_S))), partial(forest.depart, draw.choice(ranks)))


def _add(forest: Forest, nodes: list[str], which: float) -> None:
    free = sorted({forest.nodes[rank - 1] for rank in forest.departed & forest.gone.keys()})
    if free := [node for node in free if forest.rank_of(node) in forest.gone]:
        nodes = [*nodes, free[int(which * len(free))]]
    forest.more(tuple(nodes))


def _type(landlord: Landlord, forest: Forest, which: float) -> None:
    landlord.type(forest.nodes[int(which * len(forest.nodes))])


def _cut_one(forest: Forest, which: float, late_s: float) -> None:
    if links := forest.links:
        forest.cut(*links[int(which * len(links))], late_s)


def _strike(forest: Forest, harm: str, late_s: float, sender: int, receiver: int) -> None:
    """A message is on its way between the two."""
    match harm:
        case "cut":
            forest.cut(sender, receiver, late_s)
        case "cut above":
            forest.cut(receiver, sender, late_s)
        case "sender" if sender:
            forest.kill(sender)
        case "receiver" if receiver:
            forest.kill(receiver)
        case _:
            pass


def settled(forest: Forest) -> None:
    """Violation unless all that live know the same, that is what is so, have heard what was for all, and wait for
    nothing; or all have left, where the first loss ends the launch."""
    ranks = range(len(forest.nodes) + 1)
    living = {rank for rank, agent in forest.agents.items() if agent.alive}
    if not forest.ground.survive and forest.gone:
        if living - forest.silent - forest.mute:
            raise Violation("leaked", f"the launch has failed, and the agents of ranks {living} are there")
        if not (forest.losses or forest.unreachable or forest.silent or forest.mute):
            raise Violation("lost", f"nothing has happened, and the launch has failed: {forest.gone}")
        return
    quick = not (forest.losses or forest.silent or forest.mute or forest.departed)
    over_s = max(agent.phases.get(2, 0.0) for agent in forest.agents.values())
    if quick and len(forest.nodes) == forest.ground.agents and over_s > AGENT_S * (forest.ground.agents + 1):
        raise Violation("stuck", f"nothing has happened, and the launch took {over_s:.3f} s")
    expected = {*forest.unreachable, *forest.silent, *forest.departed} & set(ranks)
    if not (forest.losses or forest.mute) and forest.gone.keys() != expected:
        raise Violation("lost", f"gone are {forest.gone}, though nothing happened to others than {expected}")
    if staying := forest.departed & living:
        raise Violation("stuck", f"ranks {staying} were told to leave, and are there")
    if forest.gone.keys() != set(ranks) - living:
        raise Violation(
            "lost", f"there are {sorted(living)}, and gone by what is told are {sorted(forest.gone)}"
        )
    left = {rank for rank, agent in forest.agents.items() if agent.left is not None and 1 in agent.phases}
    left -= forest.without_controller | forest.departed
    if left and forest.losses + len(forest.departed) < 2 and not forest.slow:
        raise Violation("lost", f"the agents of ranks {left} could have found another, and have left")
    for rank in living:
        known_alike(forest, forest.agents[rank], living)


def known_alike(forest: Forest, agent: Agent, living: set[int]) -> None:
    known = agent.branch
    if known.gone.keys() != forest.gone.keys() or not living <= known.reached.keys():
        raise Violation("wrong", f"rank {agent.rank} knows {known.reached.keys()}, and of {known.gone} gone")
    if agent.phases.keys() != {1, 2} or agent.timers:
        raise Violation("stuck", f"rank {agent.rank} has phases {agent.phases} and timers {agent.timers}")
    if agent.delivered != forest.agents[0].delivered:
        raise Violation("lost", f"rank {agent.rank} has heard {agent.delivered}")
    twice = [rank for rank, count in agent.heard.items() if count > 1 or rank == agent.rank]
    if twice and not (forest.losses or forest.departed):
        raise Violation("wrong", f"rank {agent.rank} was told again how {twice} are reached")
