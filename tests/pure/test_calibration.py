"""Costs that a simulation was given come back from its journal."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from commands import command, simulated
from msgspec import structs

from pliant.core import records as r
from pliant.core.journal import Header, header_line
from pliant.core.settings import Settings
from pliant.files.cost import read_cost
from pliant.model.errors import BatchError, TraceError
from pliant.plan.cost import ResizeCost
from pliant.policy.malleable import Malleable
from pliant.sim.calibration import Samples, collect, cost, fit
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.job import SimJob
from pliant_lab.measure.generated import malleable_batch

COST = ResizeCost(start_s=0.7, start_each_s=0.3, blocked_s=0.05, leave_s=0.2, answer_s=0.1, data_s=0.01)


def with_data(jobs: list[SimJob]) -> list[SimJob]:
    """Each job with some megabytes more than the one before."""
    return [
        structs.replace(job, spec=structs.replace(job.spec, data_mb=5.0 * i)) for i, job in enumerate(jobs)
    ]


def test_the_coefficients_of_simulated_runs_are_found_again() -> None:
    journals = []
    for seed in range(5):
        records: list[Any] = []
        simulate(
            with_data(malleable_batch(seed, malleable=1.0)),
            8,
            Malleable(),
            Conditions(Settings(cost=COST)),
            records.append,
        )
        journals.append(records)
    fitted = fit(collect(journals))
    assert fitted.pop("end_s").cases == 0  # nothing tells that these jobs keep pace with their models
    assert all(each.cases > 10 for each in fitted.values())
    found = cost(fitted)
    for name in COST.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(COST, name), abs=1e-6), name
        if name == "end_s":
            continue
        assert fitted[name].error == pytest.approx(0.0, abs=1e-6)


def test_a_line_has_the_errors_of_the_textbook() -> None:
    # x = 1 2 3 4, y = 2 4 5 4: slope 0.7, intercept 2, residual variance 1.15
    fitted = fit(
        Samples(
            starts=[(1, 2.0), (2, 4.0), (3, 5.0), (4, 4.0)], expansions=1, blocked=[(0.0, 1.0), (0.0, 3.0)]
        )
    )
    assert fitted["start_each_s"][:2] == pytest.approx((0.7, math.sqrt(1.15 / 5)))
    assert fitted["start_s"][:2] == pytest.approx((2.0, math.sqrt(1.15 * (1 / 4 + 2.5**2 / 5))))
    assert fitted["blocked_s"] == pytest.approx((2.0, 1.0, 2))
    assert cost(fitted).leave_s == ResizeCost().leave_s  # no case: the default stays


def test_without_an_expansion_there_is_nothing_to_fit() -> None:
    with pytest.raises(TraceError, match="no expansion"):
        fit(Samples(blocked=[(0.0, 0.1)]))


def journal(path: Path, seed: int) -> Path:
    """The journal of a simulated run, as a live one would have left it."""
    records: list[r.Record] = []
    jobs = with_data(malleable_batch(seed, malleable=1.0))
    simulate(jobs, 8, Malleable(), Conditions(Settings(cost=COST)), records.append)
    header = Header(began="2026-01-01T00:00:00Z", policy="malleable")
    path.write_bytes(header_line(header) + b"".join(r.to_line(record) for record in records))
    return path


def test_what_runs_have_cost_is_written_and_simulated(tmp_path: Path) -> None:
    paths = [str(journal(tmp_path / f"{seed}.ndjson", seed)) for seed in range(3)]
    out = tmp_path / "cost.json"
    shown = json.loads(command("calibrate", *paths, "--out", str(out), "--json"))
    assert json.loads(out.read_text()) == shown
    read = read_cost(str(out))
    for name in COST.__struct_fields__:
        assert getattr(read, name) == pytest.approx(getattr(COST, name), abs=1e-6), name
    (tmp_path / "b.toml").write_text(BATCH)

    def end(cost: str) -> float:
        command_line = (str(tmp_path / "b.toml"), "--cost", cost)
        return float(simulated(*command_line)["makespan_s"])

    # One node at first. A group starts in 0.7 + 0.3 s; then the offer at once is answered after 0.1 s, done
    # 0.7 + 3 * 0.3 + 0.05 s later; until 0.05 s before, the job computes on one node.
    assert end(str(out)) == pytest.approx(1.0 + 1.75 + (100 - 1.7) / 4, abs=1e-5)
    assert end("none") == 25.0
    cost = ResizeCost()
    computing = cost.expand_s(1, 4) - cost.blocked_s
    expected = cost.start_s + cost.start_each_s + cost.expand_s(1, 4) + (100 - computing) / 4
    assert end("default") == pytest.approx(expected)
    predicted = command("run", "--dry-run", str(tmp_path / "b.toml"), "--cost", "none", "--json")
    assert json.loads(predicted)["runs"][0]["makespan_s"] == 25.0


BATCH = """
[cluster]
nodes = 4
[[jobs]]
command = "true"
nodes = {min = 1, max = 4}
model = {work_s = 100}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            None,
            "cannot be read: No such file or directory; give a file that pliant calibrate --out has written",
        ),
        ("{", "is no JSON"),
        ("[]", "is no cost file: Expected `object`"),
        ("{}", "is no cost file: .*missing required field `cost`"),
        ('{"cost": {"start_s": "x"}}', r"is no cost file: .*\$\.cost\.start_s"),
        ('{"cost": {"begin_s": 1}}', "is no cost file: .*unknown field `begin_s`"),
        ('{"cost": {"leave_s": -1}}', "leave_s is -1; it must be 0 or more seconds"),
    ],
)
def test_files_that_hold_no_costs_are_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "cost.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BatchError, match=rf"cost: .*cost\.json: {message}"):
        read_cost(str(path))


def test_a_cost_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = journal(tmp_path / "a.ndjson", 1)
    with pytest.raises(BatchError, match=r"--out .*no/cost\.json: cannot be written"):
        command("calibrate", str(path), "--out", str(tmp_path / "no/cost.json"))
