"""Launch trees over ssh whose controller is killed: agents go on, another takes them up, or they end by the grace."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from pliant.testing.cluster import VirtualCluster, virtual_cluster

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "live"))

from restarted import SERVICE, Batch
from tree_roots import PATIENCE_S, Root

MPI = {"MPIR_CVAR_CH4_NETMOD": "ofi"}
"""UCX takes all virtual nodes for one machine."""
NODES = tuple(f"node{i:02}" for i in range(1, 9))


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)


def agents(cluster: VirtualCluster) -> set[int]:
    """Two processes a node."""
    return {each.pid for each in cluster.processes(of="pliant.launch.tree")}


def ssh(cluster: VirtualCluster, tmp_path: Path, run: str, grace: str) -> Root:
    words = str(tmp_path / "kept"), run, "ssh", grace, "3", *NODES
    return Root(*words, popen=cluster.popen)


def test_controllers_are_killed_and_agents_on_nodes_that_came_and_went_stay(
    cluster: VirtualCluster, tmp_path: Path
) -> None:
    run = uuid.uuid4().hex[:8]
    first = ssh(cluster, tmp_path, run, "60")
    first.greeted(*NODES)
    first.order("more node09 node10")
    first.greeted(*NODES, "node09", "node10")
    first.order("back node02")
    first.wait_for(lambda root: "node02" in root.gone)
    first.order("run node05 sleep 94")
    first.wait_for(lambda root: root.nodes("started"))
    before = agents(cluster)
    assert len(before) == 2 * 9
    first.kill()
    there = {*NODES, "node09", "node10"} - {"node02"}
    second = ssh(cluster, tmp_path, run, "60")
    second.greeted(*there)
    second.kill()
    third = ssh(cluster, tmp_path, run, "60")
    third.greeted(*there)
    assert agents(cluster) == before
    assert [each.node for each in cluster.processes() if each.command == "sleep 94"] == ["node05"]
    third.order("more node11")
    third.greeted(*there, "node11")
    assert not third.gone
    third.finish()
    until(lambda: not cluster.processes(), "the end")


def test_agents_that_find_no_controller_end_by_the_grace(cluster: VirtualCluster, tmp_path: Path) -> None:
    root = ssh(cluster, tmp_path, uuid.uuid4().hex[:8], "4")
    root.greeted(*NODES)
    root.order("run node08 sleep 95")
    root.wait_for(lambda root: root.nodes("started"))
    killed = root.kill()
    time.sleep(max(0.0, killed + 3.0 - time.monotonic()))  # the grace
    assert len(agents(cluster)) == 2 * len(NODES)
    until(lambda: not cluster.processes(), "the end")
    assert time.monotonic() - killed < 4 + 6


@pytest.mark.parametrize("after_s", [0.1, 0.4, 0.8])
def test_a_controller_is_killed_as_it_starts_agents_and_the_next_has_what_has_come(
    cluster: VirtualCluster, tmp_path: Path, after_s: float
) -> None:
    run = uuid.uuid4().hex[:8]
    first = ssh(cluster, tmp_path, run, "8")
    first.wait_for(lambda root: root.told)
    time.sleep(after_s)  # that is when: any moment will do
    first.kill()
    second = ssh(cluster, tmp_path, run, "8")
    second.wait_for(lambda root: {*NODES} == root.nodes("agenthello") | root.gone.keys())
    time.sleep(1.0)  # nobody is both
    assert not second.nodes("agenthello") & second.gone.keys()
    assert {each.node for each in cluster.processes(of="pliant.launch.tree")} == second.nodes("agenthello")
    second.finish()
    until(lambda: not cluster.processes(), "the end")


def test_a_node_that_dies_meanwhile_is_told_as_gone_and_those_below_it_stay(tmp_path: Path) -> None:
    with virtual_cluster(nodes=8) as own:
        run = uuid.uuid4().hex[:8]
        first = ssh(own, tmp_path, run, "8")
        first.greeted(*NODES)
        first.kill()
        own.kill("node01")  # it has others below it
        second = ssh(own, tmp_path, run, "8")
        second.greeted(*NODES[1:])
        second.wait_for(lambda root: root.gone.keys() == {"node01"})
        second.finish()


def test_a_malleable_batch_over_ssh_goes_on_when_its_controller_is_killed_though_nodes_were_added(
    cluster: VirtualCluster,
) -> None:
    def start(*words: str) -> subprocess.Popen[str]:
        return cluster.popen([sys.executable, str(SERVICE), *words], env=MPI)

    place = cluster.place / "restarted"  # the same on all nodes
    place.mkdir(mode=0o700)
    batch = Batch(place, uuid.uuid4().hex[:8], start)
    batch.play(lambda: agents(cluster), ",".join(NODES))
    until(lambda: not cluster.processes(), "the end")
    assert not list((place / "run").iterdir())
    shutil.rmtree(place)
