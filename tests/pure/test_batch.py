"""Batches in TOML: what they mean, and that every mistake is named by file, job and key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pliant.core.records import Record
from pliant.core.settings import batch_settings
from pliant.files.batch import read_batch_file
from pliant.history.metrics import measure
from pliant.model.batch import read_batch
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobState
from pliant.model.speedup import Amdahl, Downey, Table
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.formats.batches import batch_jobs
from pliant_lab.measure.generated import malleable_batch

GOOD = """
[cluster]
nodes = 8
cooldown_s = 1.5
[[jobs]]
name = "late"
submit = 9
command = "python app.py 'two words'"
nodes = {min = 1, max = 8, factor = 2, preferred = 4}
model = {work_s = 40, serial_fraction = 0.05}
[[jobs]]
name = "first"
command = ["sleep", "1"]
nodes = 3
walltime = 30
kill = true
model.times = {1 = 60.0, 3 = 20.0}
[[jobs]]
name = "many"
count = 2
command = "true"
nodes = "2:6"
class = "moldable"
model = {work_s = 10, parallelism = 8, sigma = 0.5}
"""


JOB = {"command": "true"}


def test_a_batch() -> None:
    batch = read_batch(tomllib.loads(GOOD), "b.toml")
    assert [job.name for job in batch.jobs] == ["first", "many-1", "many-2", "late"]
    late, first, many = batch.jobs[3], batch.jobs[0], batch.jobs[1]
    assert late.command == ("python", "app.py", "two words")
    assert late.nodes == Bounds(1, 8, 2, 4)
    assert late.job_class is JobClass.MALLEABLE
    assert late.model == Amdahl(40.0, 0.05)
    assert (first.job_class, first.kill, first.walltime_s) == (JobClass.RIGID, True, 30.0)
    assert first.model == Table({1: 60.0, 3: 20.0})
    assert many.model == Downey(10.0, 8.0, 0.5)
    assert (many.nodes, many.job_class) == (Bounds(2, 6), JobClass.MOLDABLE)
    assert batch_settings(batch.cluster).cooldown_s == 1.5


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("comand = 'x'", ["unknown key 'comand'", "did you mean 'command'"]),
        ("command = ''", ["command", "missing"]),
        ("nodes = {min = 4, max = 2}", ["nodes", "max 2 is below min 4"]),
        ("nodes = {min = 1, max = 8, factor = 2, preferred = 3}", ["nodes", "preferred 3"]),
        ("nodes = {min = 1, max = 8, factor = 0}", ["nodes: factor", "1 or more"]),
        ("nodes = {min = 1, max = 8, factr = 2}", ["nodes", "unknown key 'factr'"]),
        ("nodes = {max = 8}", ["nodes", "give a number, or min and max"]),
        ("nodes = 0", ["nodes", "1 or more"]),
        ("nodes = 'x'", ["nodes"]),
        ("nodes = '4:2'", ["nodes", "max 2 is below min 4"]),
        ("nodes = '1:x'", ["nodes", "1:x"]),
        ("nodes = 9", ["nodes", "needs 9 nodes and the cluster has 8", "never start"]),
        ("submit = -1", ["submit", "0 or more"]),
        ("submit = 'noon'", ["submit", "seconds"]),
        ("walltime = -5", ["walltime", "0 or more"]),
        ("walltime = 0", ["walltime", "above 0"]),
        ("class = 'bendy'", ["class", "'bendy'", "malleable"]),
        ("class = 'rigid'\nnodes = {min = 1, max = 2}", ["class", "rigid job has one size"]),
        ("kill = 1", ["kill", "true or false"]),
        ("count = 0", ["count", "1 or more"]),
        ("env = {A = 1}", ["env.A", "quotes"]),
        ("model = {work_s = 0}", ["model.work_s", "above 0"]),
        ("model = {work = 1}", ["model", "work"]),
        (
            "model = {work_s = 1, sigma = 1}",
            ["model", "parallelism", "write {work_s, serial_fraction}, {work_s,"],
        ),
        ("model = {work_s = 1, parallelism = 0.5}", ["model.parallelism", "1 or more"]),
        ("model = {times = {x = 1}}", ["model"]),
        ("command = 'unclosed \"'", ["command", "quotation"]),
    ],
)
def test_mistakes_in_a_job_are_named(tmp_path: Path, lines: str, words: list[str]) -> None:
    given = "" if "command" in lines.partition(" =")[0] else "command = 'true'\n"
    file = tmp_path / "bad.toml"
    file.write_text(f"[cluster]\nnodes = 8\n[[jobs]]\nname = 'anna'\n{given}{lines}\n")
    with pytest.raises(BatchError) as caught:
        read_batch_file(file)
    message = str(caught.value)
    for word in [f"{file}", "job 'anna'", *words]:
        assert word in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no jobs"]),
        ("x = 1", ["unknown key 'x'"]),
        ("[cluster]\nnode = 4", ["cluster", "did you mean 'nodes'"]),
        ("[cluster]\nnodes = 0\n[[jobs]]\ncommand = 'a'", ["cluster: nodes"]),
        ("[cluster]\ncooldown_s = -1\n[[jobs]]\ncommand = 'a'", ["cluster: cooldown_s"]),
        ("[cluster]\nweights = 3\n[[jobs]]\ncommand = 'a'", ["cluster: weights: expected a table"]),
        ("[cluster]\nweights.anna = 0\n[[jobs]]\ncommand = 'a'", ["weights: anna: a weight must be above 0"]),
        ("[cluster]\nweights.anna = 'x'\n[[jobs]]\ncommand = 'a'", ["cluster: weights: anna", "'x'"]),
        (
            "[[jobs]]\nname = 'a'\ncommand = 'a'\n[[jobs]]\nname = 'a'\ncommand = 'a'",
            ["job 'a': name: two jobs"],
        ),
        ("[[jobs]\n", ["is no TOML"]),
    ],
)
def test_mistakes_in_a_batch_are_named(tmp_path: Path, text: str, words: list[str]) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(BatchError) as caught:
        read_batch_file(file)
    for word in [f"{file}", *words]:
        assert word in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BatchError, match=r"none\.toml: cannot be read: No such file"):
        read_batch_file(tmp_path / "none.toml")


def test_a_batch_is_simulated_as_its_models_say() -> None:
    batch = read_batch(tomllib.loads(GOOD), "b.toml")
    records: list[Record] = []
    simulate(
        batch_jobs(batch), 8, make("malleable"), Conditions(batch_settings(batch.cluster)), records.append
    )
    figures = measure(records)
    assert [job.state for job in figures.jobs] == [JobState.COMPLETED] * 4
    first = figures.jobs[0]
    assert (first.start_s, first.end_s) == (0.0, 20.0)
    assert all(job.spec.job_class is JobClass.RIGID for job in batch_jobs(batch, rigid=True))


def test_the_simulator_wants_models() -> None:
    batch = read_batch({"jobs": [{"name": "a", "command": "true"}]}, "b.toml")
    with pytest.raises(BatchError, match=r"b\.toml: job 'a': model: missing"):
        batch_jobs(batch)


def test_generated_batches_depend_on_the_seed_alone() -> None:
    assert malleable_batch(3) == malleable_batch(3)
    assert malleable_batch(3) != malleable_batch(4)
    assert {job.spec.job_class for job in malleable_batch(1)} == {JobClass.MALLEABLE, JobClass.RIGID}


def test_nodes_have_labels() -> None:
    batch = read_batch({"cluster": {"labels": {"gpu": "n[0-1]", "big": "n1,n7"}}, "jobs": [JOB]}, "b.toml")
    assert batch.cluster.labels == {"n0": ("gpu",), "n1": ("big", "gpu"), "n7": ("big",)}


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"a gpu": "n0"}, "'a gpu' is no label: a label begins with a letter or digit"),
        ({"gpu": ""}, "label 'gpu' names no node"),
        ({"gpu": "n[0"}, "a bracket has no other end"),
        ({"gpu": 3}, "gpu"),
    ],
)
def test_what_is_no_label_is_named(labels: dict[str, Any], problem: str) -> None:
    with pytest.raises(BatchError, match=rf"b\.toml: cluster: labels: .*{re.escape(problem)}"):
        read_batch({"cluster": {"labels": labels}, "jobs": [JOB]}, "b.toml")
