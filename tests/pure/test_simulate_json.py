"""The JSON of ``pliant simulate``: one schema, whatever was asked for, and the page that describes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from commands import simulate_json

from pliant.study.cells import FIGURES

PAGE = Path(__file__).parents[2] / "docs" / "simulating.md"
TRACE = "; MaxProcs: 4\n" + "".join(
    f"{i} {9 * i} 0 {20 + i} {1 + i % 4} -1 -1 {1 + i % 4} 90 -1 1 {i % 3}\n" for i in range(1, 40)
)
PARTS = '[[partition]]\nname = "all"\nnodes = 4\n'
TOLD = TRACE + "39 400 -1 4 1 -1 -1 1 9 -1 2 1\n"
"""With a line of a part of a job, which is not simulated as it is meant."""
ASKED: dict[str, list[str]] = {
    "one": [],
    "no jobs but malleable ones": ["--malleable", "100"],
    "a share": ["--malleable", "50"],
    "shares": ["--malleable", "0,50"],
    "policies": ["--policy", "easy,fcfs", "--by", "class"],
    "seeds": ["--estimates", "factor:2", "--seeds", "2"],
    "a window": ["--window", "10"],
    "windows": ["--window", "2x5"],
    "partitions": ["--partitions", "p.toml"],
    "a report": ["--report", "r.html"],
    "what is not simulated": [],
}


def simulated_json(name: str) -> dict[str, Any]:
    Path("x.swf").write_text(TOLD if name == "what is not simulated" else TRACE)
    Path("p.toml").write_text(PARTS)
    return simulate_json("x.swf", *ASKED[name], "--workers", "1")


def keys(result: dict[str, Any]) -> list[Any]:
    """Of the whole, of its rows and of its runs."""
    return [set(result), *({frozenset(each) for each in result[part]} for part in ("rows", "runs"))]


@pytest.mark.parametrize("name", ASKED)
def test_the_schema_is_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = simulated_json("one"), simulated_json(name)
    assert keys(other) == keys(one)
    assert all(row["runs"] == sum(_of(row, run) for run in other["runs"]) for row in other["rows"])
    for row in other["rows"]:
        means = [[run[key] for run in other["runs"] if _of(row, run)] for key in FIGURES]
        if row["runs"] == 1:
            assert [row[key] for key in FIGURES] == [{"mean": mean, "half": None} for (mean,) in means]


def _of(row: dict[str, Any], run: dict[str, Any]) -> bool:
    return bool((row["policy"], row["malleable_percent"]) == (run["policy"], run["malleable_percent"]))


def test_what_each_run_has_beside_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (run,) = simulated_json("one")["runs"]
    assert (set(run["classes"]), run["partitions"], run["unmapped"]) == ({"rigid"}, {}, [])
    (run,) = simulated_json("partitions")["runs"]
    assert run["partitions"]["all"]["jobs"] == run["jobs"] == run["simulated"] == 39
    (run,) = simulated_json("what is not simulated")["runs"]
    assert [row["jobs"] for row in run["unmapped"]] == [1]
    rigid, mixed = simulated_json("shares")["runs"]
    assert (set(rigid["classes"]), set(mixed["classes"])) == ({"rigid"}, {"rigid", "malleable"})


def test_the_page_has_all_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("## The JSON: `--json`") :]
    section = section[: section.index("\n## ", 1)]
    named = set(re.findall(r"`([a-z_0-9]+)`", section))
    result = simulated_json("policies")
    row, difference = result["rows"][0], result["differences"][0]
    wanted = {
        *result,
        *(row.keys() - set(FIGURES)),
        *difference["against"],
        "ratio",
        "low",
        "high",
        "mean",
        "half",
    }
    wanted |= {"begin_s", "end_s", "jobs", "simulated", "classes", "partitions", "unmapped", "seed"}
    wanted |= {"by", "group", "against"}
    assert wanted <= named, wanted - named
