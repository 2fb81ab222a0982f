"""Runs, report.json and the comparison: values computed by hand."""

import json

import msgspec
import pytest
from report_runs import finished, one_resize, realistic
from rich.console import Console

from pliant.charts.shapes import Box, Line, area, label_boxes, outline
from pliant.core import records as r
from pliant.history.gantt import Segment
from pliant.history.timeline import CLEANING, RESERVED, Stretch
from pliant.model.jobs import Check
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet
from pliant.model.words import count
from pliant.page.html import page
from pliant.policy.view import Reason
from pliant.report.compare import compare, headline, pacing_note, warnings
from pliant.report.data import report_json
from pliant.report.runs import Run
from pliant.report.words import alike, plain, seconds, why
from pliant.terminal.tables import compare_table, job_table

RUN_KEYS = {
    "name", "policy", "makespan_s", "utilisation", "wait_mean_s", "wait_max_s", "turnaround_mean_s",
    "bounded_slowdown_mean", "expands", "shrinks", "blocked_mean_s", "blocked_max_s", "resizing_node_s", "jobs",
}  # fmt: skip
JOB_KEYS = {"name", "class", "state", "exit_code", "verified", "submit_s", "start_s", "end_s", "resizes"}
RESIZE_KEYS = {
    "id", "kind", "from", "to", "nodes", "offered_s", "done_s", "blocked_s", "phases", "outcome", "reason",
}  # fmt: skip


def test_report_json_has_the_schema_and_the_figures() -> None:
    data = json.loads(report_json([one_resize()], paced=False))
    assert data["schema"] == 1
    assert data["paced"] is False
    run = data["runs"][0]
    assert set(run) >= RUN_KEYS
    assert run["makespan_s"] == 12.0
    # solver: 3 s on 1 node, 4 s on 3, 4 s on 2; head 2.5 s on 1; of 3 nodes for 12 s.
    assert run["utilisation"] == pytest.approx((3 * 1 + 4 * 3 + 4 * 2 + 2.5) / 36, abs=1e-6)
    assert (run["wait_mean_s"], run["wait_max_s"]) == (1.25, 1.5)
    assert run["turnaround_mean_s"] == 8.0
    assert run["bounded_slowdown_mean"] == pytest.approx((12 / 11 + 1) / 2, abs=1e-6)
    assert (run["expands"], run["shrinks"]) == (1, 1)
    assert (run["blocked_mean_s"], run["blocked_max_s"]) == (0.03, 0.04)
    # Two nodes reserved for 1 s, one left and not clean for 0.5 s.
    assert run["resizing_node_s"] == 2.5


def test_report_json_tells_jobs_and_resizes() -> None:
    run = json.loads(report_json([one_resize()]))["runs"][0]
    solver, head = run["jobs"]
    assert set(solver) >= JOB_KEYS
    assert (solver["name"], solver["class"], solver["state"], solver["exit_code"]) == (
        "solver", "malleable", "COMPLETED", 0,
    )  # fmt: skip
    assert (solver["submit_s"], solver["start_s"], solver["end_s"]) == (1.0, 2.0, 13.0)
    assert (head["state"], head["exit_code"], head["verified"]) == ("FAILED", 3, None)
    grow, shrink = solver["resizes"]
    assert set(grow) >= RESIZE_KEYS
    assert (grow["kind"], grow["from"], grow["to"], grow["nodes"]) == ("expand", 1, 3, "n[1-2]")
    assert (grow["offered_s"], grow["done_s"], grow["outcome"]) == (4.0, 5.0, "done")
    assert grow["phases"] == {"connect": 0.01, "redistribute": 0.03}
    assert (shrink["kind"], shrink["from"], shrink["to"], shrink["nodes"]) == ("shrink", 3, 2, "n1")
    assert shrink["reason"]["code"] == "shrink_for_head"
    assert shrink["reason"]["for_job"] == "head"


def test_verification_reaches_the_jobs() -> None:
    base = one_resize()
    run = Run(
        "malleable",
        "malleable",
        base.names,
        base.records,
        {"solver": Check(False, "41"), "head": Check(True, "7")},
    )
    jobs = json.loads(report_json([run]))["runs"][0]["jobs"]
    assert [job["verified"] for job in jobs] == [False, True]
    assert "solver" in warnings([run])[0]
    assert "wrong" in warnings([run])[0]


def test_a_run_without_records_is_reported_too() -> None:
    run = json.loads(report_json([Run("empty", "fcfs", ["n0"], [])]))["runs"][0]
    assert run["makespan_s"] == 0
    assert run["jobs"] == []


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((63.0,), "malleable finished in 62.0 s where rigid took 81.0 s: 23 % sooner"),
        ((101.0,), "malleable took 100 s where rigid finished in 81.0 s: 23 % later"),
        ((82.2,), "malleable and rigid took the same time, 81.2 s and 81.0 s"),
        ((81.5,), "malleable finished in 80.5 s where rigid took 81.0 s: 0.6 % sooner"),
    ],
)
def test_headline_is_right_better_worse_and_equal(ends: tuple[float, ...], said: str) -> None:
    runs = [finished("rigid", 82.0), finished("malleable", *ends)]
    assert headline(runs) == said


def with_nodes(name: str, end: float, *changes: r.Record) -> Run:
    """A run of one job on the first of two nodes, with ``changes`` of its nodes while it runs."""
    base = finished(name, end)
    records = [r.NodesGranted(0.5, NodeSet.first(2)), *base.records[1:]]
    return Run(
        name, base.policy, ["n0", "n1", "n2"], sorted([*records, *changes], key=lambda record: record.at)
    )


def test_the_nodes_of_a_run_are_those_that_it_had_and_not_those_it_ever_knew() -> None:
    lost, back = r.NodesLost(3.0, NodeSet.of([1])), r.NodesBack(4.0, NodeSet.of([1]))
    more, given = r.NodesGranted(5.0, NodeSet.of([2])), r.NodesReturned(6.0, NodeSet.of([1]))
    late = r.NodesReturned(90.0, NodeSet.of([1]))
    assert with_nodes("a", 80.0).nodes_text == with_nodes("a", 80.0, late).nodes_text == "2"
    assert with_nodes("a", 80.0, lost).nodes_there == with_nodes("a", 80.0, lost, back).nodes_there == (1, 2)
    assert with_nodes("a", 80.0, more, given).nodes_text == "2 to 3"
    assert with_nodes("a", 80.0, lost, back, more).nodes_text == "1 to 3"
    assert Run("empty", "fcfs", ["n0"], []).nodes_there == (0, 0)


def test_a_comparison_of_different_machines_says_so_first() -> None:
    added = r.NodesGranted(5.0, NodeSet.of([2]))
    alike = [with_nodes("rigid", 82.0), with_nodes("malleable", 63.0)]
    unlike = [alike[0], with_nodes("malleable", 63.0, added)]
    said = "The runs did not have the same nodes (rigid 2, malleable 2 to 3): the figures do not compare like with like."
    head = (
        "malleable finished in 62.0 s on 2 to 3 nodes where rigid took 81.0 s on 2 nodes: "
        "not on the same nodes, 23 % sooner"
    )
    assert (headline(unlike), warnings(unlike)) == (head, [said])
    assert headline(alike) == "malleable finished in 62.0 s where rigid took 81.0 s: 23 % sooner"
    assert warnings(alike) == warnings(unlike[1:]) == []
    same = [with_nodes("rigid", 82.0), with_nodes("malleable", 82.0, added)]
    assert (
        headline(same)
        == "malleable and rigid took the same time, 81.0 s and 81.0 s, on 2 to 3 nodes and 2 nodes"
    )
    table, plain_table = (shown_table(runs) for runs in (unlike, alike))
    assert " ".join(table.split()).startswith(f"! {said}")
    assert "nodes 2 2 to 3 ! not the same" in " ".join(table.split())
    assert "nodes 2 2 makespan" in " ".join(plain_table.split())
    text, plain_text = page(unlike), page(alike)
    assert f'<p class="alarm" role="alert">{said}</p>' in text
    assert '<td>2</td><td>2 to 3</td><td class="verdict worse">not the same</td>' in text
    assert "rigid: policy easy, 2 nodes · malleable: policy easy, 2 to 3 nodes" in text
    assert 'role="alert"' not in plain_text
    assert '<p class="about">2 nodes · 1 job · rigid: policy easy · malleable: policy easy</p>' in plain_text
    counts = [(run["nodes_min"], run["nodes_max"]) for run in json.loads(report_json(unlike))["runs"]]
    assert counts == [(2, 2), (2, 3)]


def shown_table(runs: list[Run]) -> str:
    console = Console(width=120, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(compare_table(runs))
    return capture.get()


def test_headline_compares_only_what_finished() -> None:
    cut = finished("malleable", 40.0)
    cut = Run(cut.name, cut.policy, cut.names, cut.records[:-2])
    runs = [finished("rigid", 82.0), cut]
    assert "did not finish" in headline(runs)
    assert "sooner" not in headline(runs)
    assert "had not ended" in warnings(runs)[0]
    assert headline(runs[:1]) == "rigid ran 1 job in 81.0 s"


def test_changes_say_which_way_is_better() -> None:
    runs = [finished("rigid", 21.0, 21.0), finished("malleable", 11.0, 16.0)]
    rows = {row.metric.key: row.cells for row in compare(runs)}
    assert rows["makespan_s"][1].change == pytest.approx(-0.25)
    assert rows["makespan_s"][1].verdict == "better"
    assert rows["utilisation"][1].change == pytest.approx(25 / 30 - 1)
    assert rows["utilisation"][1].verdict == "worse"
    assert rows["wait_mean_s"][1].verdict == "same"
    assert rows["expands"][1].verdict == ""


@pytest.mark.parametrize(("share", "valid"), [(0.004, True), (0.019, True), (0.021, False)])
def test_an_overrun_pace_above_two_per_cent_is_not_valid(share: float, *, valid: bool) -> None:
    runs = [finished("rigid", 20.0, pace=share)]
    assert runs[0].pace_valid is valid
    assert json.loads(report_json(runs))["paced"] is True
    assert json.loads(report_json(runs))["valid"] is valid
    assert any("not valid" in text for text in warnings(runs)) is not valid
    assert f"{share * 100:.1f} %" in pacing_note(runs, paced=True)
    assert pacing_note(runs, paced=False) == ""


def test_tables_read_without_colour() -> None:
    runs = [finished("rigid", 82.0), finished("malleable", 63.0)]
    console = Console(width=120, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(compare_table(runs))
        console.print(job_table(one_resize()))
    text = capture.get()
    assert "\x1b" not in text
    assert "↓ 23 % less, better" in text
    assert "1 ▲ 3 ▼ 2" in text
    assert "FAILED (3)" in text


def test_a_kind_is_said_where_it_is_not_mpi() -> None:
    base = one_resize()
    solver = base.records[1]
    assert isinstance(solver, r.JobSubmitted)
    spec = msgspec.structs.replace(solver.spec, kind=JobKind.PLACES)
    records = [
        r.JobSubmitted(solver.at, solver.job, spec) if each is solver else each for each in base.records
    ]
    places = Run(base.name, base.policy, base.names, records)
    for run, said in ((base, False), (places, True)):
        for width in (80, 120):
            console = Console(width=width, color_system=None, force_terminal=False)
            with console.capture() as capture:
                console.print(job_table(run, width))
            lines = capture.get().splitlines()
            assert ("kind" in lines[0].split()) is said
            assert ("places" in lines[1].split()) is said
            assert ("mpi" in lines[2].split()) is said
        assert ("<small>places</small>" in page([run])) is said
    jobs = json.loads(report_json([places]))["runs"][0]["jobs"]
    assert [job["kind"] for job in jobs] == ["places", "mpi"]


def test_idle_nodes_of_an_expansion_and_a_shrink() -> None:
    n = NodeSet.of
    assert one_resize().idle == [
        Stretch(1, RESERVED, n([1, 2]), 4.0, 5.0),
        Stretch(1, CLEANING, n([1]), 9.0, 9.5),
        Stretch(2, CLEANING, n([1]), 12.0, 13.0),
    ]


def test_a_job_is_one_shape_across_a_resize() -> None:
    grown = [
        Segment(1, "a", NodeSet.of([0]), 0.0, 2.0),
        Segment(1, "a", NodeSet.of([0, 1]), 2.0, 5.0),
    ]
    assert area(grown) == [Box(0.0, 2.0, 0, 0), Box(2.0, 5.0, 0, 1)]
    lines = outline(grown)
    assert Line(2.0, 1, 2.0, 2) in lines  # the border of the node that joined
    assert not any(line.x0 == line.x1 == 2.0 and line.y0 == 0 for line in lines)  # none through node 0
    assert Box(0.0, 5.0, 0, 0) in label_boxes(grown)


def test_realistic_runs_agree_with_themselves() -> None:
    rigid, malleable = realistic()
    assert [job.name for job in rigid.jobs.values()] == [job.name for job in malleable.jobs.values()]
    assert rigid.metrics.expands == 0
    assert malleable.metrics.expands == sum(mark.kind == "expand" for mark in malleable.chart.marks) > 3
    held_s = sum(len(s.nodes) * (s.to_s - s.from_s) for s in malleable.chart.segments)
    assert held_s == pytest.approx(malleable.metrics.utilisation * 8 * malleable.metrics.makespan_s)


def test_words() -> None:
    def name(number: int) -> str:
        return f"job{number}"

    assert why(Reason("shrink_for_head", 7, {"wait_saved_s": 12.0}), name) == (
        "job7 could then start, up to 12.0 s sooner"
    )
    assert why(Reason("shrink_for_head", 7, {"wait_saved_s": float("inf")}), name) == "job7 could then start"
    assert why(Reason("my_own_rule", 3), name) == "my own rule (for job3)"
    idle = "nobody was waiting for the free nodes"
    assert why(Reason("idle_nodes"), name) == idle
    assert why(Reason("idle_nodes", 0, {"remaining_s": 20.0}), name) == f"{idle}, and it had 20.0 s to go"
    estimated = why(Reason("best_use", 0, {"estimated_s": 3600.0}), name)
    assert (
        estimated
        == "nobody could make better use of the free nodes, and by its estimate it had 1 h 00 min to go"
    )
    for code in ("fits", "backfilled", "idle_nodes", "ordered", "wanted"):
        assert "_" not in why(Reason(code), name)
    assert [seconds(t) for t in (0, 0.0301, 0.9996, 4.266, 62.04, 567.1, 1980, 3780, 400000)] == [
        "0 s", "30 ms", "1.00 s", "4.27 s", "62.0 s", "567 s", "33 min", "1 h 03 min", "4.6 days",
    ]  # fmt: skip
    assert alike(567.0, 1034.0) == ("567 s", "1,034 s")
    assert alike(100.6, 101.2) == ("100.60 s", "101.20 s")
    assert (count(1, "node"), count(2, "node")) == ("1 node", "2 nodes")
    assert plain("a\x1b[31m\nb") == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b"
