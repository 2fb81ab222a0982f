"""Inside a Slurm allocation: a program launched, and a batch run, on its nodes by srun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

PLIANT = str(Path(sys.executable).with_name("pliant"))
ALLOCATION = ["salloc", "--nodes=4", "--quiet"]
MARK = "PLIANT_TEST_SLURM"
HEAT = "python -m pliant.apps.heat --rows 64 --cols 64 --steps 40"
BATCH = f"""
[cluster]
nodes = 3
[[jobs]]
name = "solver"
command = "{HEAT} --pace"
verify = "{HEAT} --serial"
nodes = {{ min = 1, max = 3 }}
walltime = 60
model = {{ work_s = 2.0 }}
[[jobs]]
name = "names"
command = "sh -c 'echo $SLURMD_NODENAME'"
kind = "tasks"
nodes = 3
"""


def inside(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """``pliant`` in an allocation of all nodes; nothing of it is left."""
    mark = uuid.uuid4().hex
    done = subprocess.run(
        [*ALLOCATION, PLIANT, *words], env={**os.environ, **env, MARK: mark},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    left = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                left.append((path / "cmdline").read_bytes())
        except OSError:
            continue
    assert not [each for each in left if b"pliant" in each]
    return done


@pytest.mark.parametrize("degree", ["direct", "2"])
def test_a_program_is_launched_on_all_nodes(slurm: Path, degree: str) -> None:
    words = [
        "--degree",
        degree,
        "--interface",
        "lo",
        "--json",
        "--",
        "sh",
        "-c",
        "hostname; echo $SLURMD_NODENAME",
    ]
    done = inside("launch", *words)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)["outputs"]
    assert [each["stdout"].split()[1] for each in outputs] == ["node1", "node2", "node3", "node4"]
    assert len({each["stdout"].split()[0] for each in outputs}) == 1, "they are one machine"


def test_a_batch_runs_on_the_nodes_of_the_allocation(slurm: Path, tmp_path: Path) -> None:
    (tmp_path / "batch.toml").write_text(BATCH)
    words = ["--provider", "slurm", "--interface", "lo", "--output", str(tmp_path / "out"), "--json"]
    done = inside("run", *words, str(tmp_path / "batch.toml"), UCX_NET_DEVICES="lo")
    assert done.returncode == 0, done.stderr
    [run] = json.loads(done.stdout)["runs"]
    assert run["nodes"] == "node[1-3]"
    jobs = {job["name"]: job for job in run["jobs"]}
    assert jobs["solver"]["verified"]
    assert sorted((tmp_path / "out" / "names.log").read_text().split()) == ["node1", "node2", "node3"]
