"""``pliant.testing.check_policy``: it finds what is wrong with a policy, and shows it small."""

from __future__ import annotations

import functools
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from drawing import examples
from hypothesis import given, settings

import pliant
from pliant import ClusterView, Decision, Job, PliantError, PolicyError, Reason, Remember, Resize, Start
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.errors import BatchError
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions
from pliant.sim.simulator import simulate as run_simulation
from pliant.testing import BrokenPolicy, Case, check_policy
from pliant.testing.policies.drawn import cases
from pliant.testing.policies.properties import Broken, journal_is_enough, simulated, work_is_conserved


class Sound:
    """Starts what fits, in order of submission, and grows jobs into what is left."""

    name = "sound"

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        free = view.free
        for job in view.queue:
            if job.bounds.min <= free:
                free -= job.bounds.min
                yield Start(job.id, job.bounds.min, Reason("fits"))
        for job in view.elastic:
            size = job.bounds.floor(job.size + free)
            if size > job.size and view.resizable(job, grow=True):
                free -= size - job.size
                yield Resize(job.id, size, Reason("idle_nodes"))


class BeyondBounds(Sound):
    """Believes that every job may have a node more."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        for job in view.queue:
            if job.bounds.min < view.free:
                yield Start(job.id, job.bounds.max + 1, Reason("more"))
                return


class Starves(Sound):
    """Has no time for wide jobs."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        return (each for each in super().decide(view) if not isinstance(each, Start) or each.size < 6)


class ByChance(Sound):
    """Starts jobs in any order."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        decisions = list(super().decide(view))
        random.shuffle(decisions)
        return iter(decisions)


class Counts(Sound):
    """Starts nothing in its first pass, unless nothing runs: a restart makes every pass the first."""

    def __init__(self) -> None:
        self.passes = 0

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        self.passes += 1
        return super().decide(view) if self.passes > 1 or not view.running else iter(())


class Remembers(Sound):
    """Counts passes too, but where a restart finds them."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        passes = view.memory.get("passes", 0) + 1
        yield Remember({"passes": passes})
        if passes > 1 or not view.running:
            yield from super().decide(view)


class Raises(Sound):
    def decide(self, view: ClusterView) -> Iterator[Decision]:
        if len(view.running) > 1:
            raise KeyError("two")
        return super().decide(view)


@pytest.mark.parametrize(
    "policy", [Sound, Sound(), functools.partial(Sound), Remembers, "easy", "marginal:payback=5"]
)
def test_a_sound_policy_passes(policy: Any) -> None:
    check_policy(policy, examples=10)


BROKEN: list[tuple[type[Sound], str, str]] = [
    (
        BeyondBounds,
        "the core allows what it decides",
        r"decided Start\(job=1, size=\d+.*but allowed sizes are 1",
    ),
    (Starves, "the core allows what it decides, and every job ends", "'sound' is stuck at .* 1 job waits"),
    (ByChance, "the same workload gives the same decisions", r"record \d+ is .*, and the second time "),
    (Counts, "a restart decides as if there had been none", "with a restart before each pass"),
    (Raises, "the core allows what it decides", r"raised KeyError: 'two' \(class Raises, line \d+\)"),
]
FEW = [Job(0, 10, 1), Job(0, 10, 1), Job(1, 10, 6)]


@pytest.mark.parametrize(("policy", "broken", "what"), BROKEN)
def test_a_broken_policy_is_named_with_what_it_breaks(policy: Any, broken: str, what: str) -> None:
    wrong = f"(?s)policy 'sound' does not keep this: {broken}.*{what}"
    with pytest.raises(BrokenPolicy, match=wrong) as caught:
        check_policy(policy, case=Case(jobs=FEW, nodes=8))
    assert isinstance(caught.value, PliantError)
    assert isinstance(caught.value, AssertionError)
    check_policy(Sound, case=caught.value.case)


def check_message(policy: Any, **options: Any) -> str:
    """What is said of a policy under which something goes wrong, once it has been said again by what was to be pasted."""
    with pytest.raises(BrokenPolicy) as caught:
        check_policy(policy, **options)
    message = str(caught.value)
    code = message.partition("The same as a program:\n")[2]
    with pytest.raises(BrokenPolicy) as again:
        exec(code, {policy.__name__: policy})  # noqa: S102
    assert again.value.case == caught.value.case
    assert str(again.value).partition("\n")[0] == message.partition("\n")[0]
    return message


@pytest.mark.long
def test_the_smallest_workload_is_found() -> None:
    message = check_message(BeyondBounds, examples=10)
    assert message.count("job 1: ") == 1
    assert message.count("job 2: ") == 0


@pytest.mark.long
@pytest.mark.parametrize(("policy", "broken", "what"), BROKEN)
@pytest.mark.parametrize("seed", [None, 5])
def test_whatever_is_broken_is_found_and_shown_small(
    policy: Any, broken: str, what: str, seed: int | None
) -> None:
    message = check_message(policy, seed=seed)
    if policy is Starves:
        assert message == check_message(policy, seed=seed)
    assert re.match(f"(?s)policy 'sound' does not keep this: {broken}.*{what}", message)
    assert message.count("        Job(") <= 4


def test_what_a_restart_loses_may_be_left_out() -> None:
    check_policy(Counts, case=Case(jobs=FEW, nodes=8), restart=False)
    with pytest.raises(BrokenPolicy, match="decides as if there had been none"):
        check_policy(Counts(), case=Case(jobs=FEW, nodes=8))


def test_words_of_a_case() -> None:
    jobs = [Job(0, 10, 4, nodes_min=1, nodes_max=8, factor=2, kill=True), Job(3, 5, name="b")]
    case = Case(jobs=jobs, nodes=8, cost="none", starting=True)
    assert case.words().splitlines() == [
        "8 nodes; resizes take no time, jobs start at that cost, are at least 2 s apart, and are called off after 30 s",
        "job 1: malleable, 1:8 by factor 2 nodes (preferred 4), submitted at 0 s, runs 10 s on 4, estimate 10 s, killed then",
        "job b: rigid, 1 node, submitted at 3 s, runs 5 s on 1, estimate 5 s",
    ]


@settings(max_examples=examples(15))
@given(cases)
def test_the_code_of_a_case_is_the_case(case: Case) -> None:
    names: dict[str, Any] = {}
    exec(case.code("'easy'"), names)  # noqa: S102
    assert names["case"] == case
    assert names["case"].sim_jobs() == case.sim_jobs()


@settings(max_examples=examples(20))
@given(cases)
def test_a_case_is_what_simulate_simulates(case: Case) -> None:
    """Who has a case can look at its jobs."""
    case = msgspec.structs.replace(case, starting=False)
    result = pliant.simulate(case.jobs, "malleable", nodes=case.nodes, cooldown_s=case.cooldown_s, resize_deadline_s=case.resize_deadline_s, cost=case.cost)  # fmt: skip
    ends = {each.job: round(each.at, 6) for each in simulated(lambda: make("malleable"), case) if isinstance(each, r.JobEnded)}  # fmt: skip
    assert result.jobs["end_s"] == [ends[number] for number in sorted(ends)]


@pytest.mark.parametrize(
    ("policy", "options", "error", "message"),
    [
        ("esay", {}, PolicyError, "did you mean 'easy'"),
        (3, {}, PolicyError, "policy: 3 is no policy"),
        (Job, {}, PolicyError, "class Job is no policy"),
        ("none.py", {}, PolicyError, "there is no such file"),
        ("exec:./own", {}, PolicyError, "policy 'exec:./own' is a process, which is not checked"),
        (Sound, {"case": Case(jobs=[Job(0, -1)], nodes=2)}, BatchError, "run_s: -1 is no number of seconds"),
        (Sound, {"case": Case(jobs=[Job(0, 1)], nodes=2, cost="nothing")}, BatchError, "cost: nothing"),
        (Sound, {"case": Case(jobs=[Job(0, 1, 3)], nodes=2)}, BatchError, "could never start"),
        (Sound, {"examples": 0}, PliantError, "examples: 0 is no number of workloads, 1 or more"),
    ],
)
def test_what_is_no_policy_or_no_case_is_said(policy: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:  # fmt: skip
    with pytest.raises(error, match=message) as caught:
        check_policy(policy, **options)
    assert not isinstance(caught.value, BrokenPolicy)


def test_a_file_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from pliant import Reason, Start\n"
        "class Own:\n    name = 'own'\n    def decide(self, view):\n"
        "        return [Start(job.id, view.total, Reason('all')) for job in view.queue]\n"
    )
    with pytest.raises(
        BrokenPolicy, match=r"(?s)policy 'own' does not keep.*check_policy\('.*own\.py', case=case"
    ):
        check_policy(tmp_path / "own.py", case=Case(jobs=FEW, nodes=8))


# ---- the properties themselves can fail ----


def test_work_that_is_made_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that computes only half of what it should."""
    case = Case(jobs=[Job(0, 10, 2)], nodes=2, cost="none")
    work_is_conserved(lambda: make("easy"), case)
    known = Case.sim_jobs
    monkeypatch.setattr("pliant.testing.policies.properties.simulated", _half)
    with pytest.raises(Broken, match=r"had time for 0\.500000 of its work"):
        work_is_conserved(lambda: make("easy"), case)
    assert Case.sim_jobs is known


def _half(_make: object, case: Case) -> list[r.Record]:
    records: list[r.Record] = []
    jobs = [msgspec.structs.replace(job, runtime_s=(job.runtime_s or 0.0) / 2) for job in case.sim_jobs()]
    run_simulation(
        jobs, case.nodes, make("easy"), Conditions(Settings(cost=case.settings.cost)), records.append
    )
    return records


def test_a_state_that_no_journal_gives_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(jobs=[Job(0, 10, 2), Job(1, 10, 2)], nodes=2)
    journal_is_enough(lambda: make("easy"), case)
    from pliant.testing.policies import properties

    monkeypatch.setattr(properties, "replay", lambda records, settings: _replay(records[:-1], settings))
    with pytest.raises(Broken, match=r"after \d+ records '.*' is .*, and by the journal"):
        journal_is_enough(lambda: make("easy"), case)


def _replay(records: Iterable[r.Record], known: Settings) -> Any:
    from pliant.core.core import replay

    return replay(records, known)


def test_hypothesis_is_asked_for_by_name() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import pliant\nfrom pliant.testing import Case, check_policy\n"
        "check_policy('easy', case=Case(jobs=[pliant.Job(0, 1)], nodes=1))\n"  # draws nothing
        "try:\n    check_policy('easy')\nexcept pliant.PliantError as error:\n    print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "hypothesis, which is not installed: pip install 'pliant[testing]'" in told.stdout


def test_pliant_testing_is_light() -> None:
    code = "import sys, pliant.testing; print(sorted(name for name in sys.modules if name.startswith(('pliant.', 'hypo'))))"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "['pliant.testing']"
    with pytest.raises(AttributeError, match=r"module 'pliant\.testing' has no attribute 'chek'"):
        getattr(pliant.testing, "chek")  # noqa: B009 - a checker would object to the name itself
