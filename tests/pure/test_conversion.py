"""Which sizes rigid jobs allow once they are made malleable: ``--conversion``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import command
from hypothesis import given
from hypothesis import strategies as st
from workloads import workload_request

import pliant
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import (
    PUBLISHED,
    USUAL,
    Conversion,
    make_malleable,
    read_conversion,
    serial_per_mille,
)
from pliant.workloads.sources import read_workload

TRACE = "; MaxProcs: 8\n" + "".join(f"{i} {i} 0 20 {i % 8 + 1} -1 -1 {i % 8 + 1} 90\n" for i in range(1, 30))


def rigid(nodes: int) -> SimJob:
    return SimJob(JobSpec(name=str(nodes), nodes=Bounds.exactly(nodes), walltime_s=100.0), 100.0)


def sizes(conversion: Conversion, preferred: int, nodes: int = 64) -> tuple[int, int] | None:
    found = conversion.bounds(preferred, nodes)
    assert found is None or found.preferred == preferred
    return (found.min, found.max) if found is not None else None


def test_half_to_twice_the_request_and_serial_jobs_stay_rigid() -> None:
    assert [sizes(USUAL, preferred) for preferred in (1, 2, 3, 4, 7, 40)] == [
        None, (1, 4), (2, 6), (2, 8), (4, 14), (20, 64),
    ]  # fmt: skip
    made = make_malleable([rigid(nodes) for nodes in (1, 2, 64)], 100, 64, 1)
    assert [job.spec.job_class for job in made] == [JobClass.RIGID, JobClass.MALLEABLE, JobClass.MALLEABLE]
    assert made[0] == rigid(1)
    assert [job.time(job.spec.nodes.preferred) for job in made] == [100.0] * 3


def test_efficiency_on_the_nodes_of_the_trace() -> None:
    """As docs/simulating.md has it: above 80 % where one of the fractions leaves that, else with the smallest."""

    def efficiency(nodes: int) -> float:
        return 1 / (1 + (nodes - 1) * serial_per_mille(nodes) / 1000)

    assert [round(efficiency(n), 3) for n in (1, 2, 5, 8)] == [1, 0.952, 0.833, 0.803]
    assert all(efficiency(n) > 0.8 for n in range(1, 251))
    assert efficiency(251) == 0.8
    assert serial_per_mille(1000) == 1


def test_bounds_are_parameters() -> None:
    assert sizes(Conversion(0.1, 1.1), 30) == (3, 33)  # 0.1 * 30 and 1.1 * 30 are a little more
    assert sizes(Conversion(0.1, 1.1), 10) == (1, 11)
    assert sizes(Conversion(0.0, 1.0), 10) == (1, 10)
    assert sizes(Conversion(1.0, 1.0), 10) is None
    assert sizes(Conversion(1.0, 3.0), 10, 10) is None
    assert sizes(Conversion(serial="malleable"), 1) == (1, 2)
    assert sizes(Conversion(serial="malleable"), 1, 1) is None
    assert sizes(PUBLISHED, 1) == (1, 20)
    assert sizes(PUBLISHED, 7) == (1, 25)


@given(st.floats(0, 1), st.floats(1, 9), st.integers(1, 300), st.integers(0, 300))
def test_a_job_allows_what_it_has_and_no_more_than_there_is(
    least: float, most: float, preferred: int, more: int
) -> None:
    nodes = preferred + more
    found = Conversion(least, most, "malleable").bounds(preferred, nodes)
    if found is not None:
        assert 1 <= found.min <= preferred <= found.max <= nodes
        assert least * preferred - 1e-5 <= found.min < max(1.001, least * preferred + 1)
        assert found.max <= most * preferred + 1e-5


def test_as_users_write_it() -> None:
    assert read_conversion("published") is PUBLISHED != Conversion(0.2, serial="malleable")
    assert read_conversion("least=0.25") == Conversion(0.25)
    assert read_conversion("least=0.5,most=2,serial=rigid") == USUAL
    assert read_conversion("serial=malleable, most=3") == Conversion(0.5, 3.0, "malleable")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("least=1.5", "least=1.5: least is 1.5; it must lie in 0 .. 1"),
        ("least=nan", "least is nan"),
        ("least=-1", "least is -1"),
        ("most=0.5", "most is 0.5; it must lie in 1 .. 1,048,576"),
        ("most=inf", "most is inf"),
        ("least=1,most=1", "least=1,most=1: least and most are both 1: no job would allow another size"),
        ("most=two", "most: 'two' is no number; write least=0.5,most=2,serial=rigid"),
        ("most=", "most has no value"),
        ("mots=2", "there is no 'mots'; did you mean 'most'?"),
        ("publish", "there is no 'publish'; did you mean 'published'?"),
        ("most", "most has no value"),
        ("published,most=2", "'published' cannot stand here"),
        ("most=2,most=3", "most is there twice"),
        ("serial=yes", "serial is 'yes'; it must be rigid or malleable"),
    ],
)
def test_what_is_no_conversion(text: str, message: str) -> None:
    with pytest.raises(BatchError) as caught:
        read_conversion(text)
    assert str(caught.value).startswith(f"conversion: {text}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("workload", "options", "message"),
    [
        ("lublin:9", {"conversion": "most=3"}, "--conversion changes nothing without --malleable"),
        ("lublin:9", {"conversion": "published", "compat": True, "malleable": 9}, "leave out --conversion"),
        ("paper2:1", {"conversion": "published", "malleable": 20}, "changes nothing for paper2"),
        (
            "paper3:9",
            {"compat": True, "malleable": 20},
            "--compat changes nothing for paper3, which makes its jobs",
        ),
        ("lublin:9", {"conversion": 2, "malleable": 20}, "--conversion: 2 is no text"),
    ],
)
def test_where_it_could_not_hold(workload: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(BatchError, match=message):
        pliant.simulate(workload, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("conversion", ["", "published"])
def test_a_job_that_is_too_wide_is_refused_as_it_was_submitted(conversion: str) -> None:
    job = {"submit_s": 0, "run_s": 9, "nodes": 10}
    with pytest.raises(BatchError, match="job '1': nodes: it needs 10 nodes and there are 8"):
        pliant.simulate([job], nodes=8, malleable=100, conversion=conversion, strict=True)


def test_command_and_function_and_the_published_settings(tmp_path: Path) -> None:
    file = tmp_path / "x.swf"
    file.write_text(TRACE)
    shown = command("simulate", str(file), "--malleable", "100", "--conversion", "published", "--json")
    [row] = json.loads(shown)["rows"]
    published = pliant.simulate(file, malleable=100, conversion="published").metrics
    assert published["turnaround_mean_s"] == row["turnaround_mean_s"]["mean"]
    assert published != pliant.simulate(file, malleable=100).metrics
    bounds = {
        option: [
            job.spec.nodes for job in read_workload(workload_request(str(file), malleable=100, **said)).jobs
        ]
        for option, said in (("usual", {}), ("p", {"conversion": "published"}), ("compat", {"compat": True}))
    }
    assert bounds["compat"] == bounds["p"] != bounds["usual"]
