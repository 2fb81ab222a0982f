"""Parameters of policies, behind their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import command

from pliant.files.policy import PolicySpec
from pliant.model.errors import PolicyError
from pliant.policy.dmr import DmrPreferred
from pliant.policy.parameters import split, values
from pliant.policy.registry import make

OWN = """
class Mine:
    name = "mine"

    def __init__(self, share=0.5, words="a", most=3, *, eager=False, any=None):
        self.told = (share, words, most, eager, any)
        assert share < 2

    def decide(self, view):
        raise ValueError(self.told)
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("easy", ("easy", {})),
        ("marginal:payback=5", ("marginal", {"payback": "5"})),
        ("keep-preferred: patience_s = 3:start=min", ("keep-preferred", {"patience_s": "3", "start": "min"})),
        ("mine.py", ("mine.py", {})),
        ("mine.py:Mine", ("mine.py:Mine", {})),
        ("some/mine.py:Mine:share=1", ("some/mine.py:Mine", {"share": "1"})),
        ("mine.py:share=1", ("mine.py", {"share": "1"})),
    ],
)
def test_a_name_and_what_is_said_behind_it(text: str, found: tuple[str, dict[str, str]]) -> None:
    assert split(text) == found


def test_values_have_the_types_of_the_defaults() -> None:
    def kind(
        share: float = 0.5,
        words: str = "a",
        most: int = 3,
        low: int = -1,
        *,
        eager: bool = False,
        other: object = None,
    ) -> None: ...

    said = {"share": "1", "words": "7", "most": "4", "low": "-4", "eager": "True", "other": "2"}
    found = values(kind, "kind", said)
    assert found == {"share": 1.0, "words": "7", "most": 4, "low": -4, "eager": True, "other": 2}
    assert [type(value) for value in found.values()] == [float, str, int, int, bool, int]
    assert values(kind, "kind", {"other": "some"}) == {"other": "some"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("marginal:paybak=5", "'marginal' has no parameter 'paybak'; did you mean 'payback'"),
        ("entitled:payback=5", "'entitled' has no parameter 'payback' .known: certain"),
        ("entitled:certain=0", "certain is 0; it must be above 0, and 1 at most"),
        ("entitled:certain=1.5", "certain is 1.5; it must be above 0, and 1 at most"),
        ("marginal:payback=soon", "payback is 'soon'; it must be a number, as in payback=2.0"),
        ("marginal:payback=-1", "payback is '-1'; it must be 0 or more"),
        ("marginal:payback=nan", "payback is 'nan'; it must be a finite number"),
        ("marginal:payback=1:payback=2", "payback is said twice"),
        ("marginal:payback=1:more", "'more' is no parameter; write marginal:PARAMETER=VALUE"),
        ("marginal:payback=", "'payback=' is no parameter"),
        ("equipartition:least=2.5", "least is '2.5'; it must be a whole number, as in least=2"),
        ("dmr-preferred:idle_growth=2", "idle_growth is '2'; it must be true or false"),
        ("easy:start=first", "there is no start rule 'first'"),
        ("marginal:start=min", "'marginal' has no parameter 'start'"),
        ("margin:payback=5", "there is no policy 'margin'; did you mean 'marginal'"),
    ],
)
def test_what_is_wrong_with_a_parameter(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        PolicySpec(text).make()


def test_a_start_rule_is_a_parameter_too() -> None:
    assert make("easy:start=min").name == "easy:start=min"
    assert make("easy:start=min", "min").name == "easy:start=min"
    with pytest.raises(PolicyError, match="to start jobs by min and by free; name one rule"):
        make("easy:start=min", "free")


def test_the_name_tells_and_makes_the_same_again() -> None:
    policy = PolicySpec("dmr-preferred:idle_growth=true:start=min").make()
    assert policy.name == "dmr-preferred:idle_growth=true:start=min"
    assert PolicySpec(policy.name).make().name == policy.name
    assert DmrPreferred.name == make("dmr-preferred").name == "dmr-preferred"
    assert make("min-pool:payback=3", order="shortest").name == "min-pool:payback=3 by shortest"


def test_a_policy_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    own = str(tmp_path / "own.py")
    with pytest.raises(PolicyError, match=r"\(0.5, 'b', 3, True, None\)"):
        command("simulate", "lublin:5", "--policy", f"{own}:Mine:words=b:eager=true")
    assert PolicySpec(f"{own}:share=1").make().name == "mine:share=1"
    with pytest.raises(PolicyError, match="class Mine: AssertionError"):
        PolicySpec(f"{own}:share=3").make()
    with pytest.raises(PolicyError, match="has no parameter 'shares'; did you mean 'share'"):
        PolicySpec(f"{own}:Mine:shares=3").make()


def test_policies_are_compared_by_their_parameters() -> None:
    said = ("--policy", "malleable,malleable:payback=1e6", "--cost", "default", "--json")
    study = command("simulate", "lublin:200", "--nodes", "32", "--malleable", "100", *said)
    rows = {row["policy"]: row for row in json.loads(study)["rows"]}
    assert list(rows) == ["malleable", "malleable:payback=1e6"]
    assert rows["malleable"]["expands"]["mean"] > 10 > rows["malleable:payback=1e6"]["expands"]["mean"]


def test_a_batch_may_have_them(tmp_path: Path) -> None:
    batch = '[cluster]\nnodes = 2\npolicy = "marginal:payback=3"\n[[jobs]]\ncommand = "true"\nmodel = {work_s = 5}\n'
    (tmp_path / "b.toml").write_text(batch)
    assert "marginal:payback=3 on 2 nodes" in command("simulate", str(tmp_path / "b.toml"))


def test_a_policy_without_parameters_says_so() -> None:
    with pytest.raises(PolicyError, match="policy 'plain' has no parameter 'payback': it has none"):
        values(object, "plain", {"payback": "5"})
