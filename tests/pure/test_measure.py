"""The figures that are measured of task programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.apps import nqueens
from pliant.cli.demo import places_batch
from pliant.cli.execute import Variant, predicted
from pliant.files.batch import read_batch_file
from pliant.model.errors import PliantError
from pliant.model.jobs import JobClass
from pliant.model.kinds import JobKind
from pliant_lab.commands.bench_apgas import MEANINGS, table
from pliant_lab.commands.bench_scaling import BATCH, write
from pliant_lab.measure import overhead
from pliant_lab.measure.overhead import Program
from pliant_lab.measure.resizes import Change
from pliant_lab.measure.scaling import SHAPES, resize_rows
from pliant_lab.reproduce import apgas
from pliant_lab.reproduce.folder import Folder

pytestmark = pytest.mark.long

FIGURES: dict[str, Any] = {
    "programs": [
        {"program": name, "options": options, **shape._asdict(), "work_s": base / gain, "speedup": gain}
        for name, options, base in (("uts", "--depth 14", 40.0), ("pi", "--points 1000", 30.0))
        for shape, gain in zip(SHAPES, (1.0, 0.98, 1.9, 1.6), strict=True)
    ],
    "startup": [{"places": 1, "seconds": 0.5, "jobs": 1}],
    "resizes": resize_rows(
        [Change(1, True, 0.5, 0.0, 0.01, {"start": 0.3}), Change(1, False, 9.0, 8.9, 0.01, {"redistribute": 0.1})]
    ),
    "processors": 2, "load_average": 0.1, "architecture": "x86_64", "sha": "wide", "rounds": 1,
}  # fmt: skip


def _queens(bare: int) -> Program:
    """A bag for 7 queens, beside a kernel for ``bare`` of them."""
    return Program(
        lambda: nqueens.QueensBag(7), nqueens.Solutions, lambda: nqueens.bare(bare),
        lambda found: float(found.tried), nqueens.CHUNK,
    )  # fmt: skip


@pytest.mark.parametrize("bare_first", [True, False])
def test_a_bag_is_held_against_its_kernel(bare_first: bool) -> None:  # noqa: FBT001
    assert overhead.ratio(_queens(7), bare_first=bare_first) > 0


def test_a_bag_that_finds_something_else_is_no_pair() -> None:
    with pytest.raises(PliantError, match=r"the bag has found .*solutions=40, .* alone .*solutions=4, "):
        overhead.ratio(_queens(6), bare_first=True)


def test_a_program_that_there_is_not_is_named_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["overhead", "uts", "nothing"])
    with pytest.raises(SystemExit):
        overhead.main()
    said = capsys.readouterr().err
    assert "'nothing'" in said
    assert all(name in said.rpartition("choose from")[2] for name in overhead.programs(quick=True))


def test_each_figure_of_the_bench_has_a_row() -> None:
    around = {"processors": 2, "load_average": 0.1, "sha": "wide"}
    times = {"ratios": 5, "scaling": 3, "resized": 2, "grows": 4, "shrinks": 3}
    shown = table({**dict.fromkeys(MEANINGS, 1.0), **around, "repetitions": times})
    assert shown.row_count == len(MEANINGS) == 11
    quick = {name: 1.0 for name in MEANINGS if name != "uts_resilient_ratio"}
    assert table({**quick, **around, "repetitions": times}).row_count == 10


def test_resizes_are_told_by_kind_and_number_with_their_phases() -> None:
    grown = [
        Change(1, True, 0.5, 0.0, 0.01, {"start": 0.3, "connect": 0.1, "commit": 0.05}),
        Change(1, True, 0.7, 0.0, 0.01, {"start": 0.5, "connect": 0.1, "commit": 0.07}),
        Change(2, True, 0.9, 0.0, 0.01, {"start": 0.6, "connect": 0.2, "commit": 0.08}),
    ]
    rows = resize_rows([Change(1, False, 0.2, 0.15, 0.01, {"prepare": 0.01, "redistribute": 0.02}), *grown])
    assert [(row["kind"], row["nodes"], row["count"]) for row in rows] == [
        ("grow", 1, 2), ("grow", 2, 1), ("shrink", 1, 1),
    ]  # fmt: skip
    assert (rows[0]["seconds"], rows[0]["start_s"], rows[0]["redistribute_s"]) == (0.6, 0.4, 0.0)
    assert (rows[2]["prepare_s"], rows[2]["redistribute_s"], rows[2]["clean_s"]) == (0.01, 0.02, 0.15)


def test_measured_times_are_models_that_the_simulator_takes(tmp_path: Path) -> None:
    """The files of bench scaling; a batch with two programs, simulated by their times alone."""
    with Folder(tmp_path / "scaling") as folder:
        write(folder, FIGURES)
    batch = read_batch_file(tmp_path / "scaling" / BATCH)
    assert [(job.name, job.kind, job.nodes.max) for job in batch.jobs] == [
        ("uts", JobKind.PLACES, 2), ("pi", JobKind.PLACES, 2),
    ]  # fmt: skip
    for job, base in zip(batch.jobs, (40.0, 30.0), strict=True):
        assert job.model is not None
        assert [job.model.time(nodes) for nodes in (1, 2)] == pytest.approx([base / 0.98, base / 1.6])
    assert predicted(Variant(batch, "", rigid=True)).metrics.makespan_s == pytest.approx(40 / 0.98, abs=1)
    names = {path.name for path in (tmp_path / "scaling").iterdir()}
    assert names == {"README.md", "scaling.csv", "startup.csv", "resizes.csv", BATCH}


def test_the_bundled_batch_mixes_both_kinds_and_checks_each_result() -> None:
    batch = places_batch()
    assert {job.kind for job in batch.jobs} == {JobKind.MPI, JobKind.PLACES}
    assert batch.cluster.policy == "malleable"
    for job in batch.jobs:
        assert job.job_class is JobClass.MALLEABLE
        assert job.verify == (*(word for word in job.command if word != "--pace"), "--serial")
    run = predicted(Variant(batch, "", rigid=False))
    assert {resize.kind for job in run.metrics.jobs for resize in job.resizes} == {"expand", "shrink"}


def test_what_was_measured_stands_beside_what_the_article_measured(tmp_path: Path) -> None:
    run = predicted(Variant(places_batch(), "", rigid=False))  # its offers are those of a run
    with Folder(tmp_path / "apgas") as folder:
        apgas.write(folder, FIGURES, run, quick=True)
    text = (tmp_path / "apgas" / "README.md").read_text()
    assert "| uts --depth 14 | 40.00 | 40.82 (0.98) | 21.05 (1.90) | 25.00 (1.60) |" in text
    assert "| grow by 1 | 1 | 0.500 | 0.000 | 0.300 | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 |" in text
    assert "**Shorter**: grow, 0.50 s" in text
    assert "**Not shorter**: shrink, 9.00 s" in text
    ocean = next(job for job in run.metrics.jobs if job.name == "ocean")
    told = f"| {apgas.offers(ocean, 'expand')} | {apgas.offers(ocean, 'shrink')} |"
    assert f"| ocean | mpi | **COMPLETED, not verified** {told}" in text
    for name in apgas.FIGURES:
        assert (tmp_path / "apgas" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "apgas" / f"{name}.csv").is_file()
        assert f"![]({name}.png)" in text
    assert len(read_batch_file(tmp_path / "apgas" / apgas.MODELS).jobs) == 2
