"""``pliant launch`` on hosts that are named, with something in the place of ssh that starts agents on this machine."""

from __future__ import annotations

import json
import os
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
for word; do case $word in exec*) ;; *) printf '%s ' "$word" >>$log ;; esac; done
echo >>$log
unset SSH_X SSH_Z
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
"""


RSH = """#!/bin/sh
for word; do case $word in exec*) ;; *) printf '%s ' "$word" >>$log ;; esac; done
echo >>$log
while [ $# -gt 2 ]; do shift; done
exec sh -c "$2"
"""


class Hosts(Launched):
    """Launches in which ``ssh`` starts a command here, whatever its host is; it writes down what it is told."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place
        self.script("ssh", SSH)
        self.log = place / "log"
        self.env = {"PATH": f"{place}:{os.environ['PATH']}", "log": str(self.log)}

    def script(self, name: str, text: str) -> str:
        """The path of a program that is written down."""
        path = self.place / name
        path.write_text(text)
        path.chmod(0o700)
        return str(path)

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
    words = [
        "--hostfile",
        str(file),
        "-N",
        "2",
        "--json",
        "--output",
        str(hosts.place / "out"),
        "-x",
        "GIVEN=x",
    ]
    done = subprocess.run(
        [PLIANT, "run", *words, "--", "sh", "-c", "echo $PLIANT_NODE $PMI_SIZE $GIVEN"],
        env={**os.environ, **hosts.env}, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    [run] = json.loads(done.stdout)["runs"]
    assert ([job["state"] for job in run["jobs"]], run["nodes"]) == (["COMPLETED"], "a,b"), done.stderr
    said = (hosts.place / "out" / "sh.log").read_text().split("\n")
    assert sorted(filter(None, said)) == ["a 4 x"] * 2 + ["b 4 x"] * 2


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
        logged = hosts.log.read_text().splitlines()
        assert [line.rpartition(" -- ")[2] for line in logged] == ["a ", "::1 ", "me@b "]
        assert [line.partition("-p ")[2][:5].strip() for line in logged] == ["", "2222", "22 -o"]


def test_another_command_may_be_in_the_place_of_ssh(hosts: Hosts) -> None:
    """For all agents of the tree, and by its path from here."""
    hosts.script("my rsh", RSH)
    words = ("--hosts", "localhost,me@[::1]:22,b", "--degree", "1", "--ssh-option=-l", "--ssh-option=you")
    shell = f"'{os.path.relpath(hosts.place)}/my rsh' -v"
    answer = hosts.told(*words, "--remote-shell", shell, "--", "sh", "-c", "echo $PLIANT_NODE")
    assert [each["stdout"] for each in answer["outputs"]] == ["localhost\n", "me@[::1]:22\n", "b\n"]
    assert hosts.log.read_text().splitlines() == [
        "-v -l you localhost ", "-v -p 22 -l you me@::1 ", "-v -l you b ",
    ]  # fmt: skip


def test_a_host_whose_shell_stalls_is_given_up_with_what_starts_its_agent(hosts: Hosts) -> None:
    """The last host of a chain: its agent is started by another one. Nothing is left anywhere."""
    stalls = hosts.script("rsh", '#!/bin/sh\n[ $1 != c ] || sleep 600\nexec sh -c "$2"\n')
    words = (
        "--hosts",
        "localhost,b,c",
        "--degree",
        "1",
        "--patience",
        "2",
        "--remote-shell",
        stalls,
        "--",
        "true",
    )
    code, _, err = hosts.run(*words, **hosts.env)
    assert (code, err) == (1, "pliant: c: it has not called within 2 s\n")
    code, _, err = hosts.run("--survive", *words, **hosts.env)
    assert (code, err) == (255, "pliant: c is lost: it has not called within 2 s\n")


def test_variables_are_sent_and_hosts_left_out(hosts: Hosts) -> None:
    words = [
        "--hosts",
        "a,b,c.cluster.org,me@d:22,e",
        "--exclude",
        "b,c,d,nod7",
        "-x",
        "SSH_X",
        "-x",
        "Y=1=2",
        "-x",
        "NO",
    ]
    answer = hosts.told(
        *words, "--", "sh", "-c", 'echo "$SSH_X $Y $PLIANT_NODE ${NO-none} $SSH_Z"', SSH_X="x y", SSH_Z="z"
    )
    assert [each["stdout"] for each in answer["outputs"]] == ["x y 1=2 a none \n", "x y 1=2 e none \n"]
    assert answer["stderr"].splitlines() == [
        "pliant: --exclude: no host is called nod7",
        "pliant: -x NO: there is no such variable here, and none is sent",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "a,b", "--exclude", "a,b"], "--exclude a,b: no host is left of a,b"),
        (["--hosts", "a", "--exclude", "a["], "--exclude: 'a[' is no hostlist"),
        (
            ["--exclude", "a"],
            "--exclude is for nodes that are reached by ssh: name them by --hosts or --hostfile",
        ),
        (["--remote-shell", "sh"], "--remote-shell is for nodes that are reached by ssh"),
        (
            ["--hosts", "a", "--remote-shell", "no/such x"],
            "there is no command 'no/such' here; give its path",
        ),
        (["--hosts", "a", "--remote-shell", "'x"], "--remote-shell 'x: No closing quotation"),
        (["-x", "=1"], "-x '=1': no variable in UTF-8; write -x NAME or -x NAME=VALUE"),
    ],
)
def test_options_of_hosts_that_cannot_work_are_told(hosts: Hosts, words: list[str], said: str) -> None:
    code, _, err = hosts.run(*words, "--", "true")
    assert code == 2
    assert said in err
