"""``pliant policies``, and policies from a user's own file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from commands import command, simulated

from pliant.model.errors import PolicyError
from pliant.policy.order import ORDERS
from pliant.policy.registry import POLICIES

TRACE = "; MaxProcs: 4\n1 0 0 10 3 -1 -1 3 10\n2 0 0 5 4 -1 -1 4 5\n3 0 0 10 1 -1 -1 1 10\n"
OWN = '''
from dataclasses import dataclass

from pliant import Promise, Reason, Resize, Start
from pliant.policy.easy import Easy

@dataclass
class Widest:
    """Starts the widest job that fits."""
    start: str = "min"
    name: str = "widest"
    def decide(self, view):
        fits = [job for job in view.queue if job.bounds.min <= view.free]
        wide = max(fits, key=lambda job: job.bounds.min, default=None)
        return [Start(wide.id, wide.bounds.min, Reason("widest"))] if wide else []

class Greedy:
    name = "greedy"
    def decide(self, view):
        return [Start(job.id, job.bounds.max, Reason("now")) for job in view.queue]

class Lazy:
    name = "lazy"
    def decide(self, view):
        return []

class Buggy:
    name = "buggy"
    def decide(self, view):
        return 1 / (view.free - view.free)

class Odd:
    name = "odd"
    def decide(self, view):
        yield "start"

class Vague:
    name = "vague"
    def decide(self, view):
        for job in view.queue:
            yield Start(job.id, 1.0, Reason("half"))

class Nameless:
    def decide(self, view):
        return []

class NoPolicy:
    pass
'''


MORE = """
from pliant.policy.view import Reason, Remember, Start

class Nothing:
    name = "nothing"
    def decide(self, view): ...

class NoView:
    name = "noview"
    def decide(self): return []

class Forgets:
    name = "forgets"
    def decide(self, view): return [Remember(3)]

class Zero:
    name = "zero"
    def decide(self, view): return [Start(job.id, 0, Reason("none")) for job in view.queue]
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "x.swf").write_text(TRACE)
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_policy_has_a_line() -> None:
    listed = json.loads(command("policies", "--json"))
    assert [entry["name"] for entry in listed["policies"]] == list(POLICIES)
    for entry in listed["policies"]:
        assert 20 < len(entry["summary"]) <= 110, entry
    assert set(listed["orders"]) == set(ORDERS)
    table = command("policies")
    assert all(name in table for name in [*POLICIES, *ORDERS])


def test_a_policy_of_ones_own(files: Path) -> None:
    figures = simulated("x.swf", "--policy", "own.py:Widest")
    assert figures["wait_mean_s"] == pytest.approx((5 + 0 + 15) / 3)
    assert "widest on 4 nodes" in command("simulate", "x.swf", "--policy", f"{files}/own.py:Widest")
    command("simulate", "x.swf", "--policy", "own.py:Widest", "--start", "free", "--order", "shortest")
    (files / "one.py").write_text(OWN[: OWN.index("class Greedy")])
    command("simulate", "x.swf", "--policy", "one.py")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("conservatve", "did you mean 'conservative'"),
        ("nowhere.py", r"nowhere\.py: there is no such file"),
        ("own.py", r"own\.py: has several policies: name one as own\.py:Widest"),
        ("own.py:", r"own\.py: has several policies"),
        ("own.py:Greed", r"own\.py: there is no class 'Greed'; did you mean 'Greedy'"),
        ("own.py:NoPolicy", "class NoPolicy is no policy: it has no decide"),
        ("own.py:Nameless", "class Nameless: AttributeError: .* 'name'"),
        ("own.py:Greedy", r"'greedy' at 0\.000 s decided Start.* only 1 node is free \(free 1 of 4, pending 2"),
        ("own.py:Lazy", r"'lazy' is stuck at 0\.000 s: 3 jobs wait \(1, 2, 3\), 4 of 4 nodes are free"),
        ("own.py:Buggy", r"'buggy' at 0\.000 s raised ZeroDivisionError: .* \(own\.py, line 30\) \(free 4 of 4, pend"),
        ("own.py:Odd", r"'odd' at 0\.000 s decided 'start', which is none of Start, Resize, Promise, Wake, Remember"),
        ("own.py:Vague", r"'vague' at 0\.000 s decided Start\(job=1, size=1\.0.* not of the types"),
        ("broken.py", r"broken\.py, line 2: NameError"),
        ("syntax.py", r"syntax\.py, line 2: SyntaxError"),
        ("imports.py", r"imports\.py, line 1: SyntaxError"),
        ("leaves.py", r"leaves\.py, line 1: SystemExit: 3"),
        ("more.py:Nothing", r"'nothing' at 0\.000 s decided None; decide\(view\) must return a list"),
        ("more.py:NoView", r"'noview' at 0\.000 s raised TypeError: .*decide\(\) takes 1 .* \(free 4 of 4"),
        ("more.py:Forgets", r"'forgets' at 0\.000 s decided Remember\(memory=3, merge=False\), whose fields are not of the types"),
        ("more.py:Zero", r"'zero' at 0\.000 s decided Start\(job=1, size=0.* allowed sizes are"),
        ("empty.py", r"empty\.py: has no policy"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_policy_is_said(
    files: Path, monkeypatch: pytest.MonkeyPatch, policy: str, message: str
) -> None:
    (files / "broken.py").write_text("import os\nnothing\n")
    (files / "empty.py").write_text("X = 1\n")
    (files / "syntax.py").write_text("import os\ndef\n")
    (files / "imports.py").write_text("import policy_helper_with_an_error\n")
    (files / "policy_helper_with_an_error.py").write_text("\n\ndef\n")
    monkeypatch.syspath_prepend(files)
    (files / "leaves.py").write_text("raise SystemExit(3)\n")
    (files / "more.py").write_text(MORE)
    with pytest.raises(PolicyError, match=message):
        command("simulate", "x.swf", "--policy", policy)


def test_options_that_a_policy_does_not_take(files: Path) -> None:
    with pytest.raises(PolicyError, match="class Lazy takes no start rule"):
        command("simulate", "x.swf", "--policy", "own.py:Lazy", "--start", "min")
    with pytest.raises(PolicyError, match="no order 'shortes'; did you mean 'shortest'"):
        command("simulate", "x.swf", "--order", "shortes")
    for weight in ("anna", "anna=0", "=2", "anna=much"):
        with pytest.raises(PolicyError, match="write USER=WEIGHT"):
            command("simulate", "x.swf", "--order", "weight", "--weight", weight)


def test_a_policy_that_was_changed_is_read_again(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new text of the same length, in the same second: Python's cache of bytecode would take it for the old one."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    mine = files / "mine.py"
    for answer, problem in (("[42]", "decided 42, which"), ("[43]", "decided 43, which")):
        mine.write_text(f"class Mine:\n    name = 'mine'\n    def decide(self, view): return {answer}\n")
        os.utime(mine, (1_000_000_000, 1_000_000_000))
        with pytest.raises(PolicyError, match=problem):
            command("simulate", "x.swf", "--policy", "mine.py", "--json")
    assert not list(files.glob("__pycache__"))  # and nothing is left beside the user's file
