"""``pliant launch`` on hosts that are named, with something in the place of ssh that starts agents on this machine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import PATIENCE_S, PLIANT
from test_launch import Launched

from pliant.launch import shm

SSH = """#!/bin/sh
if [ "$1" = -G ]; then echo hostname ${at:-127.0.0.1}; exit; fi
echo "$@" >>$log
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
"""


class Hosts(Launched):
    """Launches in which ``ssh`` starts a command here, whatever its host is; it writes down what it is told."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place
        path = place / "ssh"
        path.write_text(SSH)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.log = place / "log"
        self.env = {"PATH": f"{place}:{os.environ['PATH']}", "log": str(self.log)}

    def told(self, *words: str, **env: str) -> dict[str, Any]:
        """What ``--json`` says."""
        _, out, err = self.run("--json", *words, **{**self.env, **env})
        assert out, err
        answer: dict[str, Any] = json.loads(out)
        return {**answer, "stderr": err}


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    launch = Hosts(tmp_path)
    yield launch
    launch.end()


def test_processes_are_placed_by_the_slots_of_a_hostfile(hosts: Hosts) -> None:
    file = hosts.place / "hosts"
    file.write_text("# of a cluster\na:2\nb slots=1 max_slots=1\n\na\nc\n")
    words = ("--hostfile", str(file), "-n", "7", "--", "sh", "-c", "echo $PLIANT_NODE")
    answer = hosts.told(*words)
    assert [each["stdout"] for each in answer["outputs"]] == ["a\n"] * 5 + ["b\n"] + ["c\n"]
    one_a_node = hosts.told("--hostfile", str(file), "-N", "2", "--", "true")
    assert [each["node"] for each in one_a_node["outputs"]] == ["a", "b"]
    file.write_text("a:2\nb:x\n")
    code, _, err = hosts.run(*words)
    assert code == 2
    assert err.startswith(f"pliant: {file}, line 2: 'b:x': slots are a number from 1; write host:4")


def test_a_job_has_the_slots_of_a_hostfile(hosts: Hosts) -> None:
    """As many as the host has that has the fewest."""
    file = hosts.place / "hosts"
    file.write_text("a:2\nb slots=3\n")
    words = ["--hostfile", str(file), "-N", "2", "--json", "--output", str(hosts.place / "out")]
    done = subprocess.run(
        [PLIANT, "run", *words, "--", "sh", "-c", "echo $PLIANT_NODE $PMI_SIZE"],
        env={**os.environ, **hosts.env}, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    [run] = json.loads(done.stdout)["runs"]
    assert ([job["state"] for job in run["jobs"]], run["nodes"]) == (["COMPLETED"], "a,b"), done.stderr
    said = (hosts.place / "out" / "sh.log").read_text().split("\n")
    assert sorted(filter(None, said)) == ["a 4"] * 2 + ["b 4"] * 2


def test_nodes_of_one_host_may_have_names_that_begin_alike(hosts: Hosts) -> None:
    """Each has files and processes of its own there."""
    names = ["node1", "me@node1.io", "node11", "node1:22", "[::1]:22", "::1"]
    answer = hosts.told("--hosts", ",".join(names), "-n", "12", "--", "sh", "-c", "echo $PLIANT_NODE")
    assert [each["stdout"] for each in answer["outputs"]] == [f"{name}\n" for name in names for _ in (0, 1)]
    (hosts.place / "[::1]:22.1.0.0.0.token").touch()
    (hosts.place / ":.1.0.0.0.token").touch()
    assert [each.node for each in shm.started(hosts.place, "[::1]:22")] == ["[::1]:22"]


@pytest.mark.parametrize(
    "words", [("--hosts", "a,[::1]:2222,me@b:22"), ("-N", "3", "--interface", "::1/128")]
)
def test_agents_listen_and_are_reached_by_ipv6(hosts: Hosts, words: tuple[str, ...]) -> None:
    answer = hosts.told(*words, "--degree", "1", "--", "sh", "-c", "echo $PLIANT_PLACE_HOST", at="::1")
    assert [(each["code"], each["stdout"]) for each in answer["outputs"]] == [(0, "::1\n")] * 3
    if "--hosts" in words:
        assert [each["node"] for each in answer["outputs"]] == ["a", "[::1]:2222", "me@b:22"]
        logged = [line.partition(" exec ")[0] for line in hosts.log.read_text().splitlines()]
        assert [line.rpartition(" -- ")[2] for line in logged] == ["a", "::1", "me@b"]
        assert [line.partition("-p ")[2][:5].strip() for line in logged] == ["", "2222", "22 -o"]
