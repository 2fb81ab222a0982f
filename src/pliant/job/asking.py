"""A question of a loop of the program's own to the scheduler, on the root. No MPI and no I/O in here."""

from __future__ import annotations

from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Negotiation, Situation
from pliant.model.jobs import Bounds


class SchedulerQuestion:
    """A question to the scheduler, until it is ``answered``: by an action that can begin, or that nothing follows.

    Answers do not name what they answer. So one question is out at a time: a new one waits until the one before has
    its answer, and nothing comes of that.
    """

    def __init__(
        self, negotiation: Negotiation, now: Situation, bounds: Bounds, *, prefers: bool = False
    ) -> None:
        self.now = now
        self.decision = Decision()
        self.negotiation = negotiation
        self._bounds = bounds
        self._prefers = prefers
        self._sent = False
        negotiation.forget(now, "the job asks for something else by now")

    def ask(self) -> None:
        """Send it, unless the scheduler has made an offer or owes the answer to a question before."""
        if not self._sent:
            self._sent = self.negotiation.want(self.now.epoch, self._bounds, prefers=self._prefers)

    def answered(self) -> bool:
        """Take in what has come; what the scheduler asks for by itself is an answer as well."""
        negotiation = self.negotiation
        negotiation.answer(self.now)
        self.ask()
        self.decision = negotiation.decide(self.now)
        if self.decision.action is not Action.NO_ACTION:
            return True
        return self._sent and not (negotiation.asked or negotiation.resize)

    def give_up(self, why: str) -> None:
        """Nothing is to come of it any more: an expansion whose newcomers have not come is called off, and what the
        scheduler still answers is declined."""
        self.negotiation.forget(self.now, why)
