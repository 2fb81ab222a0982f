"""What ``pliant bench launch`` measures, on real nodes: launchers that end well, badly, and not at all."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pliant.model.errors import PliantError
from pliant.testing.cluster import VirtualCluster
from pliant_lab.measure.launching import (
    EMPTY,
    FLAT,
    Contender,
    Effort,
    Launches,
    flat,
    measure,
    ours,
    steps,
)
from pliant_lab.measure.quiet import Quiet

EFFORT = Effort(nodes=(2, 4), degrees=(8,), window=2, ssh_delays_s=(0.0,), repetitions=2)
QUIET = Quiet(0.0)
TOLD = {
    "nodes": 4,
    "phases": {"start": 0.5, "contacts": 0.25},
    "connections_max": 5,
    "depth": 2,
    "outputs": [],
}


def contender_that_says(what: object) -> Contender:
    return Contender("ours", lambda _: ["echo", json.dumps(what)], tells=True)


def test_all_run_in_each_round_and_one_that_fails_ends_nothing(cluster: VirtualCluster) -> None:
    fails = Contender("fails", lambda names: ["sh", "-c", f"echo {len(names)} in vain >&2; exit 3"])
    several = [flat(2), fails, contender_that_says(TOLD)]
    done: list[None] = []
    rows = measure(cluster, EFFORT, several, QUIET, lambda: done.append(None))
    assert len(done) == steps(EFFORT, several) == 12
    assert [(row["nodes"], row["contender"]) for row in rows] == [
        (nodes, name) for nodes in (2, 4) for name in (FLAT, "fails", "ours")
    ]  # fmt: skip
    for row in rows:
        if row["contender"] == "fails":
            assert row["failed"] == f"exit code 3: {row['nodes']} in vain"
            assert (row["seconds"], row["of_flat"], row["runs_s"]) == (None, None, [])
        else:
            assert row["failed"] == ""
            assert len(row["runs_s"]) == 2
            assert row["seconds"] > 0
    assert rows[0]["of_flat"] == 1.0
    assert {name: rows[2][name] for name in ("phases", "connections_max", "depth")} == {
        name: TOLD[name] for name in ("phases", "connections_max", "depth")
    }


def test_the_flat_loop_reaches_every_node_and_tells_of_one_that_fails(cluster: VirtualCluster) -> None:
    words = flat(2).argv(cluster.names[:4])
    words[2] = words[2].replace(EMPTY[0], "'hostname; test $(hostname) != node03'")
    done = cluster.run(words)
    assert sorted(done.stdout.split()) == list(cluster.names[:4])
    assert done.returncode == 123


@pytest.mark.parametrize(
    ("contender", "words"),
    [
        (Contender("slow", lambda _: ["sleep", "1000"]), "sleep 1000: no end within 0.3 s on head"),
        (Contender("not there", lambda _: ["no-such-launcher"]), "exit code 127: .*no-such-launcher"),
        (contender_that_says({"nodes": 4}), "its JSON is not as expected"),
        (contender_that_says([]), "its JSON is not as expected"),
    ],
)
def test_a_contender_that_fails_is_told_with_its_words(
    cluster: VirtualCluster, contender: Contender, words: str
) -> None:
    launches = Launches(contender, 4)
    launches.launch(cluster, 0.3 if contender.name == "slow" else 60.0)
    with pytest.raises(PliantError, match=words):
        raise PliantError(launches.failed)


def test_our_launcher_is_asked_in_the_form_that_is_agreed() -> None:
    words = ours(32, 8).argv([f"node{number:02d}" for number in range(1, 65)])
    assert shlex.join(words[1:]) == "launch --hosts 'node[01-64]' --degree 32 --window 8 --json -- true"


def test_the_command_says_what_was_measured_and_who_was_left_out() -> None:
    words = [
        str(Path(sys.executable).with_name("pliant")),
        "bench",
        "launch",
        "--nodes",
        "3",
        "--degree",
        "2",
    ]
    done = subprocess.run(
        [*words, "--repetitions", "1", "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["window"], figures["ssh_delay_s"], figures["repetitions"]) == (8, 0.0, 1)
    names = {row["contender"] for row in figures["launches"]}
    assert names | figures["left_out"].keys() == {
        FLAT, "pliant launch, degree 2", "hydra", "pdsh", "clush", "pliant launch --mpi, degree 2", "hydra, MPI"
    }  # fmt: skip
    rows = {row["contender"]: row for row in figures["launches"]}
    assert not [row for row in rows.values() if row["failed"]]
    if mpi := rows.get("pliant launch --mpi, degree 2"):
        assert list(mpi["phases"]) == ["contacts", "started", "fence", "ended", "over"]
