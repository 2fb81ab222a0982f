"""Stand-ins for the processes of jobs. A job's command says which kind it is:

    rigid SECONDS [EXIT_CODE]      one world over all nodes: MPI_Init, computing, MPI_Finalize
    deaf SECONDS [EXIT_CODE]       the same, and SIGTERM is ignored
    silent SECONDS                 a malleable job that never opens a session
    tasks COUNT SECONDS            each rank does so many tasks of its own, and knows nothing of MPI
    places STEPS STEP_S            see ``pliant_lab.injection.standins.places``
    malleable STEPS STEP_S         see ``pliant_lab.injection.standins.malleable``
    liar STEPS STEP_S lie=KIND     a malleable program that says what it must not: see ``Liar``

All take ``late=S`` (a start within S seconds, at random), ``deaf=1`` and ``tidy=S`` (ends by itself S seconds after
SIGTERM); those of MPI ``cards=N`` (so many long values that each rank puts in MPI_Init), and rigid ones ``skip=RANK``
(which ends without MPI_Finalize). Nothing in here does I/O, reads a clock or draws from a source of its own: the
``Host`` gives time, chance and connections.
"""

from __future__ import annotations

import msgspec

from pliant.protocol import messages as m
from pliant.protocol.codec import encode, from_job
from pliant_lab.injection.standins.fabric import Fabric, Result, Span, read_result
from pliant_lab.injection.standins.malleable import MalleableRank
from pliant_lab.injection.standins.place import Place
from pliant_lab.injection.standins.places import Places
from pliant_lab.injection.standins.running import Host, Program, Running, Script, Wait
from pliant_lab.injection.standins.sleeping import SleepingRank

__all__ = ["LIES", "Fabric", "Host", "Process", "Result", "Span", "Wait", "read_result"]

LIES = (
    "garbage", "unknown", "done", "answers", "epoch", "groups", "bye", "hello", "stale", "old", "root", "early",
    "resize", "version", "left", "eager", "gone",
)  # fmt: skip
PMI = ("unknown", "missing", "empty", "twice")
"""Odd calls of a rank in MPI_Init: a command that there is not, a key that nobody has put, a put without a value, and a
barrier in which it is already. The first two are answered; the others end its group."""
MANY = 70
"""More than a scheduler keeps for a root that is to come."""
NOWHERE = 1000
"""Added to a number to make one that names nothing."""


class Rigid(Running):
    """A rank of one world over all nodes."""

    def script(self) -> Script[int]:
        number, late = self.program.number, self.program.word("late", 0.2)
        yield from self.sleep(self.host.random.uniform(0, late), "its own start")
        space = yield from self.mpi_init()
        yield from self._odd_call(space)
        yield from self.sleep(number(0, 1.0), "its own work")
        code = int(number(1, 0))
        if self.host.env["PMI_RANK"] == self.program.words.get("skip"):
            return 0
        if code:
            self.abort("the program fails", code)
        yield from self.mpi_finalize()
        return 0

    def _odd_call(self, space: str) -> Script[None]:
        match self.program.words.get("pmi"):
            case "unknown":
                reply = yield from self.ask("cmd=dance", "MPI_Init")
                if (reply.get("cmd"), reply.get("rc")) != ("dance", "-1"):
                    self.fabric.problem(f"{self.name} may dance: {reply}")
            case "missing":
                reply = yield from self.ask(f"cmd=get kvsname={space} key=nothing", "MPI_Init")
                if reply.get("rc") != "-1":
                    self.fabric.problem(f"{self.name} got {reply} for a key that nobody has put")
            case "empty":
                yield from self.ask(f"cmd=put kvsname={space} key=nothing", "MPI_Init")
                self.fabric.problem(f"{self.name} has put nothing, and goes on")
            case "twice":
                self.host.ask(b"cmd=barrier_in\n")
                yield from self.fence("MPI_Init")


class Silent(Running):
    """It computes and ends, and never says a word."""

    def script(self) -> Script[int]:
        yield from self.sleep(self.program.number(0, 1.0), "its own work")
        return int(self.program.word("exit", 0))


class Tasks(Running):
    """Independent tasks."""

    def script(self) -> Script[int]:
        number, random = self.program.number, self.host.random
        yield from self.sleep(random.uniform(0, self.program.word("late", 0.2)), "its own start")
        for _ in range(int(number(0, 1))):
            yield from self.sleep(number(1, 0.1) * random.uniform(0.5, 1.5), "a task")
            self.fabric.tasks += 1
        return int(self.program.word("exit", 0))


class Liar(SleepingRank):
    """What it has to say it says, and more, by ``lie``:

    ``garbage`` a line that is no message, which closes its session; ``unknown`` a message of a type that there is not;
    ``done`` every Done, Accept, Decline and Failed twice; ``answers`` both answers to every offer; ``epoch`` messages
    of epochs that are over or have never been; ``stale`` a Done of the epoch before, with its Accept; ``groups`` before
    each Done, one that names groups that do not exist;
    ``early`` much of an epoch that is to come; ``resize`` answers to a resize that there is not; ``version`` Hello in
    another version; ``left`` Bye when it has accepted; ``eager`` Done when it has accepted; ``gone`` that groups leave
    which have left before;
    ``old`` goes on to speak when it has been released; ``root`` names one that leaves as the next to speak; these two,
    ``stale``, ``gone`` and ``resize`` tell with each Progress one of the epoch before;
    ``bye`` Bye in the midst of its work, and goes on; ``hello`` Hello again, with each Progress.
    """

    left: tuple[int, ...] = ()
    """The groups that have."""

    def write(self, data: bytes) -> None:
        before, after = self._lies(_DECODER.decode(data))
        for line in (*before, data, *after):
            super().write(line)

    def _lies(  # noqa: C901, PLR0911, PLR0912 - each lie has its place
        self, message: m.JobMessage
    ) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """What is said before ``message``, and after it."""
        match self.program.words.get("lie", LIES[0]), message:
            case "garbage", m.Progress():
                return (b'{"type": "done", "epoch":\n',), ()
            case "unknown", m.Progress():
                return (b'{"type": "surrender", "epoch": 0}\n',), ()
            case "done", m.Done() | m.Accept() | m.Decline() | m.Failed():
                return (), (encode(message),)
            case "answers", m.Accept(epoch=epoch, resize=resize):
                return (), (encode(m.Decline(epoch, resize, "no after all")),)
            case "answers", m.Decline(epoch=epoch, resize=resize):
                return (), (encode(m.Accept(epoch, resize)),)
            case "stale", m.Accept(epoch=epoch, resize=resize):
                return (), (encode(m.Done(epoch - 1, resize, self.group)),)
            case "epoch", m.Accept(epoch=epoch, resize=resize) | m.Done(epoch=epoch, resize=resize):
                early = encode(m.Failed(epoch + NOWHERE, resize, "of an epoch that never comes"))
                late = (
                    m.Failed(epoch - 1, resize, "of the epoch before"),
                    m.Done(epoch - 1, resize, self.group),
                )
                return (*map(encode, late), early), ()
            case "epoch", m.Progress(epoch=epoch):
                others = (epoch + NOWHERE, epoch - 1) if epoch else (epoch + NOWHERE,)
                return tuple(encode(m.Progress(other, 1.0)) for other in others), ()
            case "groups", m.Done(epoch=epoch, resize=resize, root=root):
                return (encode(m.Done(epoch, resize, root + NOWHERE, (root + NOWHERE,))),), ()
            case "root", m.Done(epoch=epoch, resize=resize, released=released) if released:
                return (encode(m.Done(epoch, resize, released[0], released)),), ()
            case "old", m.Bye() if self.released:
                said = m.Progress(self.epoch, 0.5), m.Want(self.epoch, self.bounds)
                return tuple(encode(each) for each in said), ()
            case "early", m.Progress(epoch=epoch):
                return (), tuple(encode(m.Progress(epoch + 1, i / MANY)) for i in range(MANY))
            case "resize", m.Accept(epoch=epoch, resize=resize):
                other = resize + NOWHERE
                return tuple(
                    encode(each) for each in (m.Accept(epoch, other), m.Done(epoch, other, self.group))
                ), ()
            case "version", m.Hello():
                return (encode(msgspec.structs.replace(message, version=NOWHERE)),), ()
            case "left", m.Accept(epoch=epoch):
                return (), (encode(m.Bye(epoch, self.result().text())),)
            case "eager", m.Accept(epoch=epoch, resize=resize):
                return (), (encode(m.Done(epoch, resize, self.group)),)
            case "gone", m.Done(epoch=epoch, resize=resize, root=root, released=released):
                before, self.left = self.left, (*self.left, *released)
                return ((encode(m.Done(epoch, resize, root, before)),) if before else ()), ()
            case "bye", m.Progress(epoch=epoch):
                return (), (encode(m.Bye(epoch, self.result().text())),)
            case "hello", m.Progress(epoch=epoch):
                job = int(self.host.env["PLIANT_JOB"])
                return (encode(m.Hello(job, self.group, epoch, self.host.token, 1, self.bounds)),), ()
            case "stale" | "gone" | "resize" | "root" | "old", m.Progress(epoch=epoch) if epoch:
                return (encode(m.Progress(epoch - 1, 1.0)),), ()
        return (), ()


_KINDS: dict[str, type[Running]] = {
    "rigid": Rigid,
    "deaf": Rigid,
    "silent": Silent,
    "tasks": Tasks,
    "places": Places,
    "malleable": SleepingRank,
    "liar": Liar,
}
_DECODER = from_job()


class Process:
    """A process of a job, from exec to its end. ``waiting`` is what it waits for now."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        """ValueError if there is no such kind of program."""
        kind = Program.parse(host.argv).kind
        if kind not in _KINDS:
            raise ValueError(f"there is no program {kind!r}; there are {', '.join(_KINDS)}")
        self._running = _KINDS[kind](host, fabric)

    def team(self, epoch: int) -> dict[int, int] | None:
        """The groups of the job as this process has them, with the ranks that are awake, if it is one of these in
        ``epoch``."""
        running = self._running
        if isinstance(running, MalleableRank) and running.team is not None and running.epoch == epoch:
            return {group: running.team.awake(group) for group in running.team.groups}
        return None

    @property
    def waiting(self) -> Wait | None:
        return self._running.waiting

    @property
    def epoch(self) -> int:
        """The epoch in which the process is; that of its start, if it knows of none."""
        return self._running.epoch if isinstance(self._running, MalleableRank | Places) else 0

    @property
    def in_mpi(self) -> bool | None:
        """Whether it is between MPI_Init and MPI_Finalize; None where its launcher may think otherwise."""
        return self._running.in_mpi

    def cut(self, other: Process) -> bool:
        """The connection between two places breaks; False where there is none."""
        one, two = self._running, other._running
        if not isinstance(one, Place) or not isinstance(two, Place):
            return False
        return one.cut(two)

    def begin(self) -> None:
        """Exec has happened."""
        self._running.begin()

    def on_session(self, data: bytes) -> None:
        self._running.on_session(data)

    def on_session_closed(self) -> None:
        self._running.on_session_closed()

    def on_launch(self, data: bytes) -> None:
        self._running.on_launch(data)

    def signalled(self, number: int) -> None:
        """A signal that a program can ignore: SIGKILL never gets here."""
        self._running.signalled(number)

    def ended(self) -> None:
        """It has ended, or was killed."""
        self._running.ended()
