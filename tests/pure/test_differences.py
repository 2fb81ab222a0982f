"""What a study says of two rows: ratios by their logarithms, who ends later, and of which group of jobs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd
import polars as pl
import pytest
from commands import command
from hypothesis import given
from hypothesis import strategies as st

import pliant
from pliant import ClusterView, Decision, Reason, Start
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import Bounds, JobSpec
from pliant.study.confidence import STUDENT_95, interval, ratio_of_sums
from pliant.study.differences import Pair, Times, difference, later, ratio
from pliant.study.groups import LABELS, in_order

SECONDS = st.floats(1e-3, 1e7)


# ---- known answers -------------------------------------------------------------------------------------------


def test_twice_and_half_cancel_out() -> None:
    both = ratio([[(10.0, 20.0)], [(10.0, 5.0)]])
    assert both["ratio"] == pytest.approx(1.0)
    # Of two values the quantile of Student's t is 12.706: log 2 times that, over the root of 2 by the root of 2.
    assert both["high"] == pytest.approx(2.0**12.706, rel=1e-4)
    assert both["low"] == pytest.approx(2.0**-12.706, rel=1e-4)
    alone = {"ratio": pytest.approx(0.75), "low": None, "high": None}
    assert ratio([[(4.0, 3.0)]]) == alone
    # What is 0 has no logarithm: then it is the ratio of all together.
    assert ratio([[(4.0, 0.0)], [(0.0, 3.0)]]) == alone
    for none in ([], [[(0.0, 1.0)]], [[(1.0, 0.0)]]):
        assert ratio(none) == {"ratio": None, "low": None, "high": None}
    # Of several of one unit the mean counts once.
    assert ratio([[(1.0, 2.0), (1.0, 8.0)]]) == {"ratio": pytest.approx(4.0), "low": None, "high": None}
    assert ratio([[(1.0, 2.0), (1.0, 8.0)], [(1.0, 4.0)]])["high"] == pytest.approx(4.0)


@given(pairs=st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=12))
def test_the_ratio_is_that_of_geometric_means(pairs: list[tuple[float, float]]) -> None:
    found = ratio([[pair] for pair in pairs])
    logs = [math.log(now / then) for then, now in pairs]
    half = STUDENT_95[len(pairs) - 2] * stdev(logs) / math.sqrt(len(pairs))
    assert found["ratio"] == pytest.approx(math.exp(fmean(logs)), rel=1e-9)
    assert found["low"] == pytest.approx(math.exp(fmean(logs) - half), rel=1e-6)
    turned = ratio([[(now, then)] for then, now in pairs])
    assert found["ratio"] is not None
    assert found["low"] is not None
    assert turned["ratio"] == pytest.approx(1 / found["ratio"], rel=1e-9)
    assert turned["high"] == pytest.approx(1 / found["low"], rel=1e-6)


def test_who_is_later() -> None:
    """By 1 % and a minute, by 10 % and a minute; what never ended does not count."""
    before = [100.0, 1000.0, 10_000.0, 10_000.0, 10_000.0, 5.0, math.nan]
    after = [170.0, 1060.0, 10_061.0, 10_101.0, 11_001.0, 4.0, 3.0]
    found = later(before, after)
    assert (found.jobs, found.worst_s) == (6, 1001.0)
    assert (found.later_1, found.later_10) == (3, 2)
    assert later([5.0], [5.0]) == (1, 0, 0, 0.0)
    assert later([], []) == (0, 0, 0, 0.0)


def test_a_share_is_that_of_all_jobs() -> None:
    """User 18 of a trace in three windows: 34 of 70, none of 2, all of 130."""
    share = ratio_of_sums([34.0, 0.0, 130.0], [70.0, 2.0, 130.0])
    assert share.mean == pytest.approx(164 / 202)
    # Of samples of one size it is the interval of their shares.
    even = ratio_of_sums([10.0, 20.0, 30.0], [50.0, 50.0, 50.0])
    assert even == pytest.approx(interval([0.2, 0.4, 0.6]))
    assert ratio_of_sums([3.0], [4.0]) == (0.75, None)
    assert ratio_of_sums([], []) == (0.0, None)


def test_groups_and_their_order() -> None:
    def spec(nodes: int, user: str = "") -> JobSpec:
        return JobSpec(name="x", nodes=Bounds.exactly(nodes), user=user)

    width = LABELS["width"]
    assert [width(spec(n)) for n in (1, 2, 3, 4, 5, 8, 9, 64, 65)] == [
        "1", "2", "3-4", "3-4", "5-8", "5-8", "9-16", "33-64", "65-128",
    ]  # fmt: skip
    assert in_order("width", ["9-16", "1", "129-256", "3-4"]) == ["1", "3-4", "9-16", "129-256"]
    assert in_order("user", ["bob", "10", "9", ""]) == ["9", "10", "", "bob"]
    assert in_order("class", ["malleable", "rigid"]) == ["rigid", "malleable"]
    assert LABELS["user"](spec(1, "ann")) == "ann"


# ---- of simulations ------------------------------------------------------------------------------------------


def study(*arguments: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(command("simulate", *arguments, "--workers", "1", "--json"))
    return result


LUBLIN = ("lublin:150,load=0.9", "--nodes", "64")


def test_the_differences_are_those_of_the_two_simulations() -> None:
    """Of a single pair they follow from the tables of its jobs."""
    result = study(
        *LUBLIN, "--policy", "easy,marginal", "--malleable", "0,100", "--against", "easy@0", "--by", "class"
    )
    rigid = pliant.simulate("lublin:150,load=0.9", "easy", 64, malleable=0)
    rows = {(row["policy"], row["malleable_percent"]): row for row in result["differences"]}
    assert set(rows) == {("marginal", 0), ("easy", 100), ("marginal", 100)}
    assert rows["marginal", 0]["turnaround_mean_s"]["ratio"] == pytest.approx(1.0)
    other = pliant.simulate("lublin:150,load=0.9", "marginal", 64, malleable=100)
    row = rows["marginal", 100]
    assert row["against"] == {"policy": "easy", "malleable_percent": 0}
    for key in ("turnaround_mean_s", "turnaround_p95_s", "turnaround_max_s", "wait_mean_s"):
        now, then = other.metrics[key], rigid.metrics[key]
        assert now is not None
        assert then is not None
        assert row[key] == {"ratio": pytest.approx(now / then), "low": None, "high": None}
    who = later(rigid.jobs["turnaround_s"], other.jobs["turnaround_s"])
    assert (row["jobs"], row["pairs"]) == (150, 1)
    assert row["later_1_percent"] == {"mean": pytest.approx(100 * who.later_1 / 150), "half": None}
    assert row["worst_s"] == pytest.approx(who.worst_s, abs=1e-3)
    groups = [
        each for each in result["groups"] if (each["policy"], each["malleable_percent"]) == ("marginal", 100)
    ]
    for each in groups:
        mine = [i for i, name in enumerate(other.jobs["class"]) if name == each["group"]]
        longest = [max(table["turnaround_s"][i] for i in mine) for table in (rigid.jobs, other.jobs)]
        assert each["jobs"] == len(mine)
        assert each["turnaround_max_s"]["ratio"] == pytest.approx(longest[1] / longest[0])
    assert [(each["by"], each["group"]) for each in groups] == [("class", "rigid"), ("class", "malleable")]


@pytest.mark.parametrize(
    ("against", "expected"),
    [
        ("", {("fcfs", 0): ("easy", 0), ("fcfs", 50): ("easy", 50)}),
        ("fcfs", {("easy", 0): ("fcfs", 0), ("easy", 50): ("fcfs", 50)}),
        ("@0", {("easy", 50): ("easy", 0), ("fcfs", 50): ("fcfs", 0)}),
        ("fcfs@50", dict.fromkeys([("easy", 0), ("fcfs", 0), ("easy", 50)], ("fcfs", 50))),
    ],
)
def test_what_is_compared_with_what(against: str, expected: dict[Any, Any]) -> None:
    words = ("--policy", "easy,fcfs", "--malleable", "0,50", *(("--against", against) if against else ()))
    found = study(*LUBLIN, *words)["differences"]
    assert {
        (row["policy"], row["malleable_percent"]): (
            row["against"]["policy"],
            row["against"]["malleable_percent"],
        )
        for row in found
    } == expected
    alone = study(*LUBLIN, "--policy", "easy", "--malleable", "0,20,50")["differences"]
    assert [(row["malleable_percent"], row["against"]["malleable_percent"]) for row in alone] == [
        (20, 0),
        (50, 0),
    ]


def test_pairs_have_one_seed_and_one_window() -> None:
    """At 0 % no seed changes a trace, and its one run stands beside each of the others."""
    result = study(
        *LUBLIN, "--policy", "easy,marginal", "--malleable", "50", "--seeds", "3", "--by", "width,user"
    )
    (row,) = result["differences"]
    assert (row["pairs"], row["jobs"]) == (3, 450)
    ratios = []
    for seed in (42, 43, 44):
        one, other = (
            pliant.simulate("lublin:150,load=0.9", policy, 64, malleable=50, seed=seed).metrics[
                "turnaround_mean_s"
            ]
            for policy in ("easy", "marginal")
        )
        assert one is not None
        assert other is not None
        ratios.append(math.log(other / one))
    assert row["turnaround_mean_s"]["ratio"] == pytest.approx(math.exp(fmean(ratios)))
    assert (
        row["turnaround_mean_s"]["low"] < row["turnaround_mean_s"]["ratio"] < row["turnaround_mean_s"]["high"]
    )
    widths = [each for each in result["groups"] if each["by"] == "width"]
    assert sum(each["jobs"] for each in widths) == 450


def test_a_trace_is_compared_in_windows(tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    path.write_text(
        "; MaxProcs: 4\n" + "".join(f"{i} {i * 9} 0 {20 + i} {1 + i % 4} -1 -1 -1 90\n" for i in range(1, 60))
    )
    result = study(
        str(path),
        "--policy",
        "easy,marginal",
        "--malleable",
        "0,50",
        "--window",
        "3x10",
        "--seeds",
        "2",
        "--against",
        "@0",
    )
    rows = {(row["policy"], row["malleable_percent"]): row for row in result["rows"]}
    assert [rows[key]["runs"] for key in (("easy", 0), ("easy", 50))] == [3, 6]
    assert [(row["pairs"], row["units"]) for row in result["differences"]] == [(6, 3), (6, 3)]
    assert len(result["runs"]) == 2 * 3 + 2 * 6


def test_groups_that_are_not_there_with_each_seed_add_up() -> None:
    """Ten seeds make a tenth of the jobs malleable, with some none of a window: it counts there as 0 of its 8 jobs."""
    jobs = [pliant.Job(submit_s=10 * i, run_s=100, nodes=2) for i in range(20)]
    found = pliant.compare(
        jobs, ["malleable"], 8, malleable=[0, 10], seeds=10, window="2x8", warm_up="all", by="class"
    )
    assert found.groups["group"] == ["rigid", "malleable"]
    assert found.groups["pairs"][0] == 20 > found.groups["pairs"][1] > 0
    assert found.differences["jobs"] == [sum(found.groups["jobs"])] == [16]


def test_of_a_unit_the_pairs_without_a_group_count_as_none_of_it() -> None:
    """Two seeds of a window: with the first one job of the group is later, of two; with the second there is none."""
    pair = Pair(Times([100.0, 100.0, 100.0], [0.0] * 3), Times([200.0, 100.0, 400.0], [0.0] * 3))
    found = difference([[pair, pair]], [[[0, 1], []]])
    assert found["jobs"] == 1
    assert found["later_10_percent"]["mean"] == pytest.approx(50.0)
    assert found["turnaround_max_s"]["ratio"] == pytest.approx(2.0)
    # In another window two of two are later: of three jobs two and a half are.
    both = difference([[pair, pair], [pair]], [[[0, 1], []], [[0, 2]]])
    assert both["jobs"] == 3
    assert both["later_10_percent"]["mean"] == pytest.approx(100 * 2.5 / 3)
    assert both["turnaround_max_s"]["ratio"] == pytest.approx(math.sqrt(2.0 * 4.0))


def test_jobs_that_are_others_at_each_percentage_are_not_compared() -> None:
    result = study("paper2:43", "--policy", "malleable", "--malleable", "0,40")
    assert len(result["rows"]) == 2
    jobs = {row["jobs"] for row in result["differences"]}
    assert jobs <= {len(pliant.simulate("paper2:43", malleable=0).jobs["name"])}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "clss"], r"--by: there is no 'clss'; did you mean 'class'\? \(known: class, width, user\)"),
        (["--by", "class"], "--by: nothing is compared; name two policies"),
        (["--against", "easy"], "--against: nothing is compared"),
        (
            ["--policy", "easy,fcfs", "--against", "esy"],
            "--against esy: 'esy' is none of the policies; did you mean",
        ),
        (
            ["--policy", "easy,fcfs", "--against", "easy@5"],
            r"'5' is none of the percentages of --malleable \(known: none",
        ),
        (
            ["--policy", "easy", "--malleable", "0,50", "--against", "easy", "--by", "class"],
            "--against easy: nothing is compared, as each row would be with itself; write easy@0, or leave it out",
        ),
        (
            ["--policy", "easy,fcfs", "--malleable", "50", "--against", "@50"],
            "--against @50: nothing is compared, as each row would be with itself; write easy@50, or leave",
        ),
    ],
)
def test_what_cannot_be_compared(words: list[str], message: str) -> None:
    with pytest.raises(BatchError, match=message):
        study(*LUBLIN, *words)


def test_the_tables_show_ratios_and_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        *LUBLIN,
        "--policy",
        "easy,marginal",
        "--malleable",
        "0,50",
        "--against",
        "easy@0",
        "--by",
        "width",
    )
    for width in ("80", "120"):
        monkeypatch.setenv("COLUMNS", width)
        text = command("simulate", *words, "--seeds", "2", "--workers", "1")
        assert "Ratios to easy at 0 % (rigid jobs), with 95 % intervals" in " ".join(text.split())
        assert "Ratios to easy at 0 % (rigid jobs), by width, with 95 % intervals" in " ".join(text.split())
        assert "…" not in text
        assert max(len(line.rstrip()) for line in text.splitlines()) <= int(width)


LATER = "in % of the jobs: a job's turnaround is longer, by more than 60 s too."
AT_0 = ["--malleable", "0,50", "--against", "easy@0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (AT_0, f"Later than under easy at 0 % (rigid jobs), {LATER} Resizes take no time."),
        ([*AT_0, "--cost", "start_s=2"], f"{LATER} Resizes and ends cost the same in both: start_s=2, "),
        (
            ["--malleable", "50"],
            f"Later than under easy, {LATER} Some jobs of the baseline are not rigid; for rigid",
        ),
        (["--malleable", "50"], "rigid ones: --malleable 0,... --against easy@0. Resizes take no time."),
        ([], f"Later than under easy (rigid jobs), {LATER} Resizes take no time."),
    ],
)
def test_the_tables_name_than_when_jobs_are_later(words: list[str], said: str) -> None:
    text = command("simulate", *LUBLIN, "--policy", "easy,marginal", *words, "--workers", "1")
    assert said in " ".join(text.split())


# ---- as a function -------------------------------------------------------------------------------------------


class Mine:
    """First come, first served."""

    name = "mine"

    def decide(self, view: ClusterView) -> list[Decision]:
        free = view.free
        found: list[Decision] = []
        for job in view.queue:
            if job.bounds.min > free:
                break
            free -= job.bounds.min
            found.append(Start(job.id, job.bounds.min, Reason("next")))
        return found


def test_compare_is_what_the_command_prints() -> None:
    told = study(
        *LUBLIN,
        "--policy",
        "easy,marginal",
        "--malleable",
        "0,50",
        "--against",
        "easy@0",
        "--by",
        "class,user",
    )
    made = pliant.compare(
        "lublin:150,load=0.9",
        ["easy", "marginal"],
        64,
        malleable=[0, 50],
        against="easy@0",
        by=["class", "user"],
    )
    assert made.nodes == 64
    for frame in (pd.DataFrame(made.rows), pd.DataFrame(pl.DataFrame(made.rows).to_dicts())):
        assert list(frame["turnaround_mean_s"]) == [row["turnaround_mean_s"]["mean"] for row in told["rows"]]
    found = pd.DataFrame(made.differences)
    assert list(found["turnaround_max_s_ratio"]) == [
        row["turnaround_max_s"]["ratio"] for row in told["differences"]
    ]
    assert list(found["against_policy"]) == ["easy"] * 3
    assert list(found["later_1_percent"]) == [row["later_1_percent"]["mean"] for row in told["differences"]]
    assert pl.DataFrame(made.groups).height == len(told["groups"]) > 0


def test_compare_takes_policies_and_jobs_of_ones_own() -> None:
    jobs = {"submit_s": [0, 0, 0], "run_s": [10, 5, 10], "nodes": [3, 4, 1]}
    made = pliant.compare(jobs, ["fcfs", Mine], 4)
    assert made.rows["policy"] == ["fcfs", "mine"]
    assert made.differences["turnaround_mean_s_ratio"] == [pytest.approx(1.0)]
    assert pliant.compare(jobs, ["easy"], 4).differences == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": "easy"}, r"policies: 'easy' is no list of policies"),
        ({"policies": []}, r"policies: \[\] is no list"),
        (
            {"policies": [Mine()]},
            "'Mine' is made, and would remember one simulation in the next; give its class",
        ),
        ({"policies": [Mine], "workers": 2}, "'Mine' is in this process alone"),
        ({"policies": ["easy"], "seeds": 0}, "--seeds: 0 is no whole number of 1 or more"),
        ({"policies": ["easy"], "malleable": [10, 200]}, "--malleable: 200 is no percentage"),
        ({"policies": ["easy"], "malleable": [None, 50]}, "is no list of percentages: leave out None"),
        ({"policies": ["easy"], "platform": Path("x.xml")}, "--platform, .* are for ElastiSim's jobs"),
        (
            {"policies": ["easy"], "belif": "exact"},
            r"compare: there is no option 'belif'; did you mean 'belief'",
        ),
        ({"policies": ["esy"]}, "esy"),
        ({"policies": ["easy"], "window": "5x"}, "--window"),
    ],
)
def test_what_compare_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((BatchError, PolicyError), match=message):
        pliant.compare("lublin:20", nodes=64, **arguments)
