"""Looks for a small workload under which a policy goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from msgspec import structs

from pliant.files.cost import read_cost
from pliant.files.external import is_external
from pliant.files.policy import PolicySpec, own_policy
from pliant.model.errors import PliantError, PolicyError
from pliant.policy.view import Policy
from pliant.sim.refusals import check_jobs
from pliant.testing.policies import properties
from pliant.testing.policies.cases import Case
from pliant.testing.policies.properties import Make

Property = Callable[[Make, Case], None]
REPEATS = "the same workload gives the same decisions"
RESTART = "a restart decides as if there had been none: what it has to know is in the view, or it asks to Remember it"
PROPERTIES: dict[str, Property] = {
    "the core allows what it decides, and every job ends": properties.every_job_ends,
    REPEATS: properties.decisions_repeat,
    "no work is lost or made up": properties.work_is_conserved,
    RESTART: properties.restart_loses_nothing,
    "the journal is enough to go on from": properties.journal_is_enough,
}
"""What is checked, in this order, and how it is called."""
TRIES = 150
"""So many workloads Hypothesis tries in search of a smaller one that goes wrong."""


class BrokenPolicy(PliantError, AssertionError):  # noqa: N818 - what has become of a policy
    """A policy has gone wrong: under ``case``, which is the smallest that was found."""

    def __init__(self, message: str, case: Case) -> None:
        super().__init__(message)
        self.case = case


class _Failure(NamedTuple):
    case: Case
    broken: str
    error: Exception

    @property
    def size(self) -> tuple[int, int]:
        return len(self.case.jobs), len(repr(self.case))


def check_policy(
    policy: str | os.PathLike[str] | Policy | Callable[..., Policy],
    *,
    examples: int = 100,
    seed: int | None = None,
    restart: bool = True,
    case: Case | None = None,
) -> None:
    """Try ``policy`` on ``examples`` small workloads of rigid, moldable and malleable jobs, and raise ``BrokenPolicy``,
    which is an AssertionError, with the smallest under which it goes wrong, in words and as code to be pasted.

    It is what ``pliant.simulate`` takes, but one that is made is copied for each run. What is checked is what all of
    Pliant's own keep (``PROPERTIES``): the core allows each decision, no node is held twice, sizes are allowed, every
    job ends, with its work done; the same workload gives the same decisions; and a controller that is started anew
    decides as the former would have. Without ``restart`` the last is left out, for a policy that is to run in the
    simulator alone, or says what it loses.

    The workloads are drawn by ``seed``, without one always the same. With a ``case`` none is drawn. Raises PolicyError
    where there is no such policy, BatchError for a case that cannot be simulated, and PliantError if Hypothesis, which
    draws them, is not installed.
    """
    make, name = _maker(policy)
    if not isinstance(examples, int) or examples < 1:
        raise PliantError(f"examples: {examples!r} is no number of workloads, 1 or more")
    if case is not None:
        check_jobs(case.sim_jobs(), case.nodes)
        read_cost(case.cost)
    checked = {each: holds for each, holds in PROPERTIES.items() if restart or each != RESTART}
    if case is not None:
        checked[REPEATS] = _repeats
    found = _first(make, case, checked) if case is not None else _search(make, checked, examples, seed or 0)
    if found is not None:
        raise BrokenPolicy(_message(found, make().name, name), found.case) from found.error


def _maker(policy: Any) -> tuple[Make, str]:
    """What makes the policy anew, and how a program calls it. PolicyError if nothing does."""
    if is_external(str(policy)):
        raise PolicyError(
            f"policy {policy!r} is a process, which is not checked: each property would start it hundreds of times"
        )
    if isinstance(policy, str | os.PathLike):
        spec, name = PolicySpec(os.fspath(policy)), repr(os.fspath(policy))
    else:
        spec = own_policy(policy)
        name = spec.name if isinstance(policy, type) else "policy"
    makes = isinstance(policy, str | os.PathLike | type) or not hasattr(policy, "decide")
    make: Make = spec.make if makes else lambda: spec._replace(own=deepcopy(policy)).make()
    make()
    return make, name


def _broken(make: Make, case: Case, checked: dict[str, Property]) -> _Failure | None:
    for name, holds in checked.items():
        try:
            holds(make, case)
        except Exception as error:  # noqa: BLE001 - whatever it is, it does not hold
            return _Failure(case, name, error)
    return None


def _first(make: Make, case: Case, checked: dict[str, Property]) -> _Failure | None:
    """What is decided by chance may differ only where a restart is looked for: the reason goes before its result."""
    failure = _broken(make, case, checked)
    if failure is not None and failure.broken == RESTART:
        return _broken(make, case, {REPEATS: _repeats}) or failure
    return failure


def _repeats(make: Make, case: Case) -> None:
    """Also where two choices are as likely."""
    for _ in range(20):
        properties.decisions_repeat(make, case)


class _Enough(BaseException):
    """Hypothesis lets it pass."""


def _search(make: Make, checked: dict[str, Property], examples: int, seed: int) -> _Failure | None:
    """The smallest failure that Hypothesis comes across. It may not find again that of a policy that does not repeat
    itself."""
    try:
        import hypothesis
        from hypothesis.errors import Flaky

        from pliant.testing.policies.drawn import cases
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise PliantError(
            "check_policy draws workloads by hypothesis, which is not installed: pip install 'pliant[testing]'"
        ) from None
    found: list[_Failure] = []
    tries = 0

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases)
    def holds(case: Case) -> None:
        nonlocal tries
        if found:
            tries += 1
            if tries > TRIES:
                raise _Enough
            failure = _broken(make, case, _alone(checked, found[0]))
        else:
            failure = _first(make, case, checked)
        if failure is not None:
            found.append(failure)
            raise properties.Broken

    try:
        holds()
    except (properties.Broken, Flaky, _Enough):
        smallest = min(found, key=lambda failure: failure.size)
        return _fewer_jobs(make, smallest, _alone(checked, smallest))
    return None


def _alone(checked: dict[str, Property], failure: _Failure) -> dict[str, Property]:
    """Only what was broken there."""
    broken = failure.broken
    return {broken: _repeats if broken == REPEATS else checked[broken]}


def _fewer_jobs(make: Make, failure: _Failure, checked: dict[str, Property]) -> _Failure:
    """The failure without the jobs that it can do without, each left out once."""
    for number in reversed(range(len(failure.case.jobs))):
        jobs = [*failure.case.jobs[:number], *failure.case.jobs[number + 1 :]]
        if jobs:
            failure = _broken(make, structs.replace(failure.case, jobs=jobs), checked) or failure
    return failure


def _message(found: _Failure, policy: str, name: str) -> str:
    error = found.error
    what = (
        str(error) if isinstance(error, PliantError | AssertionError) else f"{type(error).__name__}: {error}"
    )
    words = "\n".join(f"  {line}" for line in found.case.words().splitlines())
    return (
        f"policy {policy!r} does not keep this: {found.broken}\n{what}\n\n"
        f"The smallest workload found, on\n{words}\n\nThe same as a program:\n\n{found.case.code(name)}"
    )
