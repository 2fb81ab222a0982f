"""What a node's agent has started: the ranks of its groups, and helpers of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum

from pliant.live.node.dialects import DIALECTS, Dialect, Env, kvsname
from pliant.live.node.messages import Exited, Home, Spawn
from pliant.live.node.pmi import PmiGroup
from pliant.live.node.pmix import SERVER, PmixGroup
from pliant.protocol import codec
from pliant.protocol import messages as m

RUN = "PLIANT_RUN"
JOB = "PLIANT_JOB"
GROUP = "PLIANT_GROUP"
NODE = "PLIANT_NODE"
HELPER = "PLIANT_HELPER"
"""Marks a process of an agent's own, which belongs to no job."""

OVER = 1000
"""How many groups that are over are remembered, so that an order that comes again starts none of them again."""
RANK_LINE = 65536
TOLD = 100

Key = tuple[int, int]
"""A group's job and number."""


class GroupStage(Enum):
    WRITING = "its token is being written"
    STARTING = "its ranks are being started"
    STARTED = "all have been"
    FAILED = "one could not be"


class NodeGroup:
    """The ranks of one job on this node."""

    def __init__(self, order: m.StartGroup, home: Home) -> None:
        self.job = order.job
        self.number = order.group
        self.token = order.token
        self.world = order.world
        self.dialect: Dialect = DIALECTS[order.dialect]
        self.stage = GroupStage.WRITING
        self.answer: m.Started | m.StartFailed | None = None
        self.pids: dict[int, int] = {}
        """Of the ranks that live."""
        self.server_pid = 0
        """Of the process that is its server, while that lives."""
        self.given: dict[int, Env] = {}
        """What its server has for the environment of each rank."""
        self.launched: list[int] = []
        self.ended: list[tuple[int, Exited]] = []
        """Ranks whose end is told when all have been started, or when all that they said has been passed on."""
        self.doomed = False
        """It was to end while its ranks were being started."""
        self.broken = 0
        """The exit code of a group that we had to end, 0 for any other."""
        self.sessions: set[int] = set()
        self.greeted = False
        """Whether it has had a session: its ranks say then that they are through, also those that do not finalize."""
        self.told: deque[tuple[int, str]] = deque(maxlen=TOLD)
        """What its sessions were told that is told only once."""
        self.server = (
            self.dialect.server(order.world, kvsname(home.run, order.job, order.world.number))
            if self.dialect.server is not None
            else None
        )
        if isinstance(self.server, PmiGroup):
            self.server.preset(order.values)
            self.server.appnum = order.appnum
        self.lines: dict[int, codec.Lines] = {}
        """Of the ranks that are connected to the server."""
        token = token_name(home.node, order.job, order.group, order.world.number, order.world.part)
        self.token_file = f"{home.runtime}/{token}"
        left = self.dialect.files(home.run, order.job, order.world)
        self.folder = f"{home.shm}/{order.job}.{order.group}" if self.dialect.program else ""
        """What the server may fill."""
        left = (*left, self.folder) if self.folder else left
        self.files = left
        """What is removed when it is over. Its token goes when nobody will ask for it again."""
        self.owns_token = True
        self.cleared = False
        self.writing = True
        """Whether its token may still be written."""
        self._order: m.StartGroup | None = order
        self._ranks: Iterator[int] = iter(order.world.ranks)
        self.starting: int | None = None
        """The rank that is being started."""

    @property
    def key(self) -> Key:
        return self.job, self.number

    @property
    def timer(self) -> str:
        """Of its start."""
        return f"start {self.job} {self.number}"

    @property
    def last_timer(self) -> str:
        """Of its end."""
        return f"last {self.job} {self.number}"

    @property
    def processes(self) -> list[int]:
        """Its ranks that live, and its server if that is one."""
        return [*self.pids.values(), *([self.server_pid] if self.server_pid else [])]

    @property
    def is_starting(self) -> bool:
        return self.stage in {GroupStage.WRITING, GroupStage.STARTING}

    def keep_token(self) -> None:
        """A token that could not be written is another agent's: it says for ever that the group was started here."""
        if self.stage is GroupStage.WRITING:
            self.owns_token = False

    @property
    def held(self) -> m.Held:
        """As an inventory has it: a rank whose end has not been told counts as one that lives."""
        ranks = tuple(sorted({*self.pids, *(rank for rank, _ in self.ended)}))
        return m.Held(self.job, self.number, ranks, self.is_starting, max(self.sessions, default=0))

    def start_server(self, home: Home) -> Spawn | None:
        """What starts the server, None if that is no process of its own. It gets what a rank gets: by that it is known
        which library they will load, and whose process it is."""
        order = self._order
        if order is None or not isinstance(self.server, PmixGroup):
            return None
        self.starting = SERVER
        dialect, argv = self.dialect, self.server.command(home.programs[self.dialect.program], self.folder)
        env = self._env(order, home)
        return Spawn(
            self.job, self.number, SERVER, argv, env, dialect.defaults, dialect.without, order.cwd, self._log(order),
            connect=True,
        )  # fmt: skip

    @staticmethod
    def _log(order: m.StartGroup) -> str:
        """Where the server complains."""
        return f"{order.output}{order.world.ranks.start}.err" if order.streams else order.output

    def _env(self, order: m.StartGroup, home: Home) -> Env:
        return {
            **self.dialect.places(home),
            **order.env,
            RUN: home.run,
            JOB: str(self.job),
            GROUP: str(self.number),
            NODE: home.node,
            "PLIANT_SOCKET": home.socket,
            "PLIANT_TOKEN_FILE": self.token_file,
        }

    def next_rank(self, home: Home) -> Spawn | None:
        """What starts the next rank, None when all have been started."""
        order = self._order
        self.starting = next(self._ranks, None)
        if self.starting is None or order is None:
            self._order = None
            return None
        env = {
            **self._env(order, home),
            **self.given.get(self.starting, {}),
            **self.dialect.settings(self.world, self.starting),
        }
        dialect, connect = self.dialect, self.server is not None and not self.dialect.program
        output, own = order.output, f"{order.output}{self.starting}"
        if order.streams:
            return Spawn(
                self.job, self.number, self.starting, order.argv, env, dialect.defaults, dialect.without, order.cwd,
                f"{own}.out", connect, errors=f"{own}.err", stdin=f"{own}.in",
            )  # fmt: skip
        return Spawn(
            self.job, self.number, self.starting, order.argv, env, dialect.defaults, dialect.without, order.cwd, output,
            connect, modules=order.modules, stdin=order.stdin if self.starting == self.world.ranks.start else "",
        )  # fmt: skip


def token_name(node: str, job: int, group: int, world: int, part: int) -> str:
    """The name of a group's token file; it stands for a group that was started and not yet cleared away."""
    return f"{node}.{job}.{group}.{world}.{part}.token"


def start_problem(order: m.StartGroup, home: Home) -> str:
    """Why these ranks cannot be started here, or nothing."""
    world = order.world
    if order.dialect not in DIALECTS:
        return f"launch dialect {order.dialect!r} is not known here; known are {', '.join(sorted(DIALECTS))}"
    if not 0 <= world.part < len(world.sizes) or min(world.sizes) < 1:
        return f"world {world.number} has no part {world.part} with ranks in it"
    if not order.argv:
        return "there is no command"
    if (program := DIALECTS[order.dialect].program) and program not in home.programs:
        return f"launch dialect {order.dialect!r} needs a server {program!r}, which this agent does not have"
    return ""


class Register:
    """All groups, and all processes that are ours by name."""

    def __init__(self) -> None:
        self.groups: dict[Key, NodeGroup] = {}
        self.helpers: dict[int, str] = {}
        self._ranks: dict[int, tuple[NodeGroup, int]] = {}
        self._over: deque[tuple[Key, str]] = deque(maxlen=OVER)
        self._unwritten: dict[Key, NodeGroup] = {}
        """Forgotten while their tokens were being written."""
        self._unrecorded: deque[tuple[int, NodeGroup]] = deque()
        """Forgotten, with the number of the proof that they are gone."""

    def written(self, key: Key) -> NodeGroup | None:
        """The group whose token has been written, or could not be; it may have been forgotten meanwhile."""
        group = self._unwritten.pop(key, None) or self.groups.get(key)
        if group is not None:
            group.writing = False
        return group

    def add(self, group: NodeGroup, rank: int, pid: int) -> None:
        self._ranks[pid] = group, rank
        if rank == SERVER:
            group.server_pid = pid
            return
        group.pids[rank] = pid
        group.launched.append(pid)

    def ended(self, pid: int) -> tuple[NodeGroup, int] | None:
        """Take note of a child's end; whose rank it was, or whose server, None if it was none."""
        self.helpers.pop(pid, None)
        group, rank = found = self._ranks.pop(pid, (None, 0))
        if group is None:
            return None
        if rank == SERVER:
            group.server_pid = 0
        else:
            del group.pids[rank]
        return group, found[1]

    def is_alive(self, groups: Iterable[Key]) -> bool:
        """Whether one of them has processes, or is still being started."""
        there = [self.groups[key] for key in groups if key in self.groups]
        return any(group.processes or group.is_starting for group in there)

    def inventory(self) -> tuple[m.Held, ...]:
        return tuple(group.held for _, group in sorted(self.groups.items()))

    def is_over(self, order: m.StartGroup) -> bool:
        """Whether the very same order has been carried out and its group forgotten."""
        return ((order.job, order.group), order.token) in self._over

    def forget(self, key: Key) -> NodeGroup | None:
        group = self.groups.pop(key, None)
        if group is not None:
            self._over.append((key, group.token))
            if group.writing:
                self._unwritten[key] = group
        return group

    def proved(self, groups: Iterable[NodeGroup], number: int) -> None:
        """They are gone, and message ``number`` says so. Until that is taken it may not be recorded: their tokens tell
        the next agent that they were started here."""
        self._unrecorded.extend((number, group) for group in groups if group.owns_token)

    def taken(self, number: int) -> tuple[str, ...]:
        """The tokens that may go, now that all messages up to ``number`` have been taken."""
        tokens = []
        while self._unrecorded and self._unrecorded[0][0] <= number:
            _, group = self._unrecorded.popleft()
            group.files = (*group.files, group.token_file)
            if not group.writing:
                tokens.append(group.token_file)
        return tuple(tokens)

    def tokens(self) -> tuple[str, ...]:
        """Those of all groups: nobody will ask for them again."""
        groups = [*self.groups.values(), *(group for _, group in self._unrecorded)]
        return tuple(group.token_file for group in groups if group.owns_token)

    def of(self, job: int, but: Iterable[int]) -> frozenset[Key]:
        """The groups of a job except those with the numbers ``but``."""
        left = set(but)
        return frozenset(key for key in self.groups if key[0] == job and key[1] not in left)

    def pids(self, keys: Iterable[Key]) -> list[int]:
        """The processes of these groups that live: ranks and servers."""
        return [pid for key in keys if key in self.groups for pid in self.groups[key].processes]

    def others(self, keys: frozenset[Key]) -> tuple[tuple[Key, ...], tuple[int, ...]]:
        """What has nothing to do with these groups: the other groups, and their ranks and our helpers."""
        groups = sorted(set(self.groups) - keys)
        return tuple(groups), tuple(sorted({*self.pids(groups), *self.helpers}))
