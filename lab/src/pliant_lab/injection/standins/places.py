"""The stand-in for a program of places: each group is a place with the machines that are shipped, and its
tasks are done in steps, one finish after the other.

    places STEPS STEP_S [name=value ...]

Words: ``late`` (seconds within which it starts, at random), ``bounds`` (MIN:MAX), ``never`` (the chance that a newcomer
never comes), ``tardy`` (seconds that it takes at most to say hello), ``busy`` (the chance that a task takes 100 s),
``wants`` (every so many steps it asks for a size), ``raises``, ``zero``, ``few`` (the chance that the handler raises,
names place 0, or too few places), ``asked`` (seconds that it takes at most to answer).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from random import Random

from pliant.apgas.malleable import following as f
from pliant.apgas.place.finishes import Home
from pliant.apgas.place.machine import GIVEN_UP
from pliant.apgas.place.membership import MOST_PLACES, objection
from pliant.apgas.place.messages import Hello, Stop
from pliant.job.session import Session
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.plan.join import joined_key, source_key, star
from pliant.protocol import messages as m
from pliant_lab.injection.standins.fabric import Fabric, Result
from pliant_lab.injection.standins.place import Place, Work
from pliant_lab.injection.standins.running import OWN, PEERS, SCHEDULER, Gone, Host, Script

REPORT_S = 1.0
LOOKS_S = (0.05, 3.0)
"""How soon at most the thread of the session sees what has come: a task may keep the interpreter for itself."""
CONTACT = "places/contact"
MOST_TASKS = 5
"""In a step."""
ASKS = 0.2
"""The share of steps after which another place is asked for a value."""


def words(random: Random) -> tuple[str, ...]:
    """What makes one program of places different from another."""
    choices = {"never": 0.3, "tardy": 20.0, "wants": 3, "raises": 0.3, "zero": 0.3, "few": 0.3, "asked": 2.0}
    seldom = {"busy": 0.05}
    return (
        *(f"{name}={value}" for name, value in choices.items() if random.random() < 0.08),
        *(f"{name}={value}" for name, value in seldom.items() if random.random() < 0.15),
    )


class Places(Place):
    """Place 0 has the session by which the job is followed, and the others end when it says so."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        super().__init__(host, fabric)
        self.resize, self.own_epoch = int(host.env["PLIANT_RESIZE"]), int(host.env["PLIANT_EPOCH"])
        self.total = int(self.program.number(0, 10))
        low, _, high = self.program.words.get("bounds", f"1:{MOST_PLACES}").partition(":")
        self.bounds = Bounds(int(low), int(high or low))
        self.following: f.Following | None = None
        self._orders: deque[f.Order] = deque()
        self._turn = self._malleable = False
        self._doing = False
        self._looks_at = -1.0
        self._step = -1
        self._noted: Counter[int] = Counter()
        self._reported = 0.0

    @property
    def epoch(self) -> int:
        return self.following.epoch if self.following is not None else self.own_epoch

    def script(self) -> Script[int]:
        random, word = self.host.random, self.program.word
        yield from self.sleep(random.uniform(0, word("late", 0.2)), "its own start")
        if self.resize and random.random() < word("never", 0):
            yield from self.wait(lambda: False, "nothing: it never comes", excuse=OWN, polls=False)
        try:
            session = self.open(self.write)
            job = int(self.host.env["PLIANT_JOB"])
            session.send(m.Hello(job, self.group, self.own_epoch, self.host.token, 1, self.bounds))
            yield from self.wait(lambda: bool(session.inbox), "the scheduler's welcome")
            groups = session.welcome().groups
            if self.group:
                yield from self._serve(session, groups)
            else:
                yield from self._main(session, groups)
        except PliantError as error:
            self.abort(f"place({self.group}): {error}")
        return 0

    # ---- any place ---------------------------------------------------------------------------------------

    def _serve(self, session: Session, groups: tuple[int, ...]) -> Script[None]:
        """Find place 0, say hello, and run tasks until it says that it is enough."""
        if not self.resize:
            yield from self._fetch(session, 0, [CONTACT], "place 0 to come")
        else:
            session.send(m.Ready(self.resize, self.group))
            plan = star(groups, self.resize)
            if self.group != plan.leader:
                session.send(m.Put(self.own_epoch, plan.up[self.group], "up"))
            else:
                yield from self._fetch(session, self.own_epoch, plan.up.values(), "the other newcomers")
                session.send(m.Put(self.own_epoch, joined_key(self.resize), f.SIGNATURE))
            yield from self._fetch(
                session, self.own_epoch, [source_key(self.resize)], "place 0", excuse=SCHEDULER
            )
            yield from self.sleep(
                self.host.random.uniform(0, self.program.word("tardy", 0)), "its own connection"
            )
        self.fabric.speakers[self.group] = self
        self.machine.members.join({0: "place 0"})
        self.machine.out.append((0, Hello(f"place {self.group}"), ()))
        self.flush()
        yield from self.wait(lambda: False, "the end of the program", excuse=PEERS, polls=False)

    def _fetch(
        self, session: Session, epoch: int, keys: Iterable[str], what: str, excuse: str = ""
    ) -> Script[None]:
        wanted = [(epoch, key) for key in keys]
        for _, key in wanted:
            session.send(m.Get(epoch, key))
        yield from self.wait(lambda: all(each in session.values for each in wanted), what, excuse=excuse)

    def stopped(self, why: str) -> None:
        """It is released, or lost, or the program is over."""
        if self.over:
            return
        broken = why.startswith(("place(0) is gone", GIVEN_UP))
        if not broken and self.session is not None:
            if self.machine.unfinished:
                self.fabric.problem(f"place({self.group}) ends as {why}, with {self.machine.unfinished}")
            self.session.send(m.Bye(self.own_epoch))
        self.closed = True
        self.host.exit(1 if broken else 0)

    # ---- place 0: the program ----------------------------------------------------------------------------

    def _main(self, session: Session, groups: tuple[int, ...]) -> Script[None]:
        self.fabric.speakers[0] = self
        following = self.following = f.Following(session, self.bounds, self.limit_s, self.fabric.tell, groups)
        following.contact = "place 0"
        session.send(m.Put(0, CONTACT, following.contact))
        self._listen()
        machine, others = self.machine, set(groups[1:])
        yield from self.wait(
            lambda: others <= machine.arrived.keys() | machine.members.dead.keys(),
            "the other places",
            polls=False,
        )
        machine.admit(sorted(others & machine.arrived.keys()))
        self.flush()
        self._malleable = True
        following.begin()
        every = int(self.program.word("wants", 0))
        for step in range(self.total):
            yield from self._do_step(step)
            self.fabric.tasks += 1
            if every and step % every == 0:
                wish = max(1, len(machine.members.places()) + self.host.random.choice([-1, 1, 2]))
                following.want(Bounds(wish, wish), keep=self.host.random.random() < 0.6)
            if self.host.now - self._reported >= REPORT_S:
                self._reported = self.host.now
                session.send(m.Progress(self.epoch, (step + 1) / self.total))
        session.send(m.Progress(self.epoch, 1.0))
        yield from self.wait(
            lambda: not self._turn, "the change that is under way", excuse=SCHEDULER, polls=False
        )
        self._malleable = False
        following.end()
        if machine.unfinished:
            self.fabric.problem(f"at the end of the program place(0) has {machine.unfinished}")
        following.close()
        session.send(m.Bye(self.epoch, Result(self.total).text()))
        for place in sorted(machine.members.others | machine.arrived.keys()):
            machine.out.append((place, Stop("the program is over"), ()))
        self.flush()
        self.closed = True

    def _do_step(self, step: int) -> Script[None]:
        """One finish after the other, until all tasks of the step are done; those that died with a place are
        done again."""
        random, machine = self.host.random, self.machine
        count = random.randint(1, MOST_TASKS)
        self._step, missing = step, list(range(count))
        self._noted.clear()
        while missing:
            home = machine.open_finish()
            there = machine.members.places()
            if len(missing) == count:
                self.spawn(random.choice(there), home.finish, Work(step, 0, count - 1))
            else:
                for number in missing:
                    self.spawn(random.choice(there), home.finish, Work(step, number, 0))
            machine.finish_ended(home.finish)
            self.flush()
            yield from self._until_over(home, f"the tasks of step {step}")
            missing = [number for number in missing if not self._noted[number]]
            if missing and not home.lost:
                self.fabric.problem(f"step {step} is over, and tasks {missing} of {count} were not done")
                return
        if twice := [number for number, times in self._noted.items() if times > 1]:
            self.fabric.problem(f"of step {step} these tasks were done more than once: {twice}")
        if random.random() < ASKS:
            yield from self._ask_another()

    def _until_over(self, home: Home, what: str) -> Script[None]:
        yield from self.wait(lambda: home.over, what, excuse=OWN, polls=False)
        self.machine.close_finish(home)
        self.flush()

    def _ask_another(self) -> Script[None]:
        """Have a value from another place, or the news of its death."""
        machine = self.machine
        others = [place for place in machine.members.places() if place]
        if others:
            number = machine.send(self.host.random.choice(others), "value", None, (), wanted=True)
            call = machine.calls[number]
            self.flush()
            yield from self.wait(lambda: call.done, "a value", excuse=OWN, polls=False)
            del machine.calls[number]
            machine.settle()
            self.flush()

    def note(self, work: Work) -> None:
        if work.step != self._step:
            self.fabric.problem(f"a task of step {work.step} has run on in step {self._step}")
        self._noted[work.number] += 1

    # ---- place 0: the thread of its session --------------------------------------------------------------

    def on_session(self, data: bytes) -> None:
        super().on_session(data)
        self._soon()

    def on_session_closed(self) -> None:
        super().on_session_closed()
        self._soon()

    def _soon(self) -> None:
        if self.following is not None and not self.over:
            self.soon(0.0, self.host.random.choice(LOOKS_S), self._listen)

    def changed(self) -> None:
        if self.following is not None and not self.over:
            self.wake()
            if self.following.stirs(self._view()):
                self._soon()

    def _view(self) -> f.View:
        machine = self.machine
        return f.View(
            self.host.now, machine.members.places(), frozenset(machine.arrived), frozenset(machine.parting)
        )

    def _listen(self) -> None:
        """What has come, and what follows from it, while the handler is not being asked."""
        following = self.following
        if following is None or self._doing or self.over:
            return
        try:
            self.poll()
            while not self._doing and (orders := following.look(self._view())):
                self._carry_out(orders)
        except Gone:
            return
        if following.until is not None and following.until != self._looks_at:
            self._looks_at = following.until
            self.host.later(following.until - self.host.now, self._listen)

    def _carry_out(self, orders: list[f.Order]) -> None:
        self._orders += orders
        while self._orders and not self._doing:
            self._do(self._orders.popleft())

    def _do(self, order: f.Order) -> None:
        machine = self.machine
        match order:
            case f.TurnAway():
                machine.turn_away(order.places, "they are not wanted any more")
            case f.Release():
                machine.release(order.places)
            case f.Keep():
                machine.recall(order.places)
            case f.Lose():
                if order.why == f.DID_NOT_LEAVE and not self._anyone_died():
                    self.fabric.problem(f"place({order.place}) had done all, and did not leave")
                machine.lost(order.place, order.why)
            case f.Say():
                self.fabric.tell(f"{self.host.now:.3f} {order.text}")
            case f.EndTurn():
                self._turn = False
            case _:
                self._doing = True
                self.soon(0.0, self.program.word("asked", 0.01), lambda: self._ask(order))
                return
        self.flush()

    def _anyone_died(self) -> bool:
        peers = self.fabric.speakers.values()
        return any(isinstance(each, Place) and each.over and not each.closed for each in peers)

    def _ask(self, question: f.Question) -> None:
        """The handler's turn comes, if there is one still; its answer takes a while."""
        if not (self._turn or self._malleable):
            self._doing = False  # as in the session: that there is no handler any more answers what is open
            return
        self._turn = True
        random, word = self.host.random, self.program.word
        problem = ""
        chosen: tuple[int, ...] = ()
        if random.random() < word("raises", 0):
            problem = f"{type(question).__name__} raised ValueError: no"
        elif isinstance(question, f.PreShrink):
            problem, chosen = self._choose(question)
        if isinstance(question, f.Join):
            self.machine.admit([place for place in question.places if place in self.machine.arrived])
            self.flush()
        self.soon(0.0, word("asked", 0.01), lambda: self._answer(question, problem, chosen))

    def _choose(self, question: f.PreShrink) -> tuple[str, tuple[int, ...]]:
        random, word = self.host.random, self.program.word
        there = self.machine.members.places()
        others = [place for place in there if place and place not in question.wanted]
        more = max(0, min(len(others), question.count - len(question.wanted)))
        chosen = (*question.wanted, *random.sample(others, more))
        if random.random() < word("zero", 0):
            chosen = (0, *chosen[1:])
        if random.random() < word("few", 0):
            chosen = chosen[1:]
        return objection("pre_shrink", question.count, chosen, there), chosen

    def _answer(self, question: f.Question, problem: str, chosen: tuple[int, ...]) -> None:
        self._doing = False
        if self.following is not None and not self.over:
            orders = self.following.asked(
                self._view(), question.resize, 0.0, problem, () if problem else chosen
            )
            self._carry_out(orders)
            self._listen()
