"""Where no virtual cluster can be had, the reason says what to do; here by taking away what is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pliant.model.errors import PliantError
from pliant.testing.cluster import virtual_cluster, why_not

ASK = [sys.executable, "-c", "from pliant.testing.cluster import why_not; print(why_not())"]


def ask_in_a_process(*within: str) -> str:
    done = subprocess.run([*within, *ASK], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_it_can_be_had_here() -> None:
    assert why_not() == ""
    assert ask_in_a_process() == ""


def test_it_needs_root() -> None:
    nobody = ["setpriv", "--reuid=65534", "--inh-caps=-all", "--bounding-set=+dac_override"]
    assert "need root" in ask_in_a_process(*nobody)


def test_it_needs_sshd() -> None:
    hidden = 'mount --bind /dev/null $(command -v sshd || echo /usr/sbin/sshd) && exec "$@"'
    said = ask_in_a_process("unshare", "--mount", "sh", "-c", hidden, "sh")
    assert said == "virtual clusters need sshd: apt-get install openssh-server"


def test_it_needs_namespaces() -> None:
    said = ask_in_a_process("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    assert "refused here (unshare: unshare failed: Operation not permitted)" in said
    assert "--privileged" in said


def test_a_cluster_that_does_not_come_up_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    sshd = tmp_path / "sshd"
    sshd.write_text("#!/bin/sh\necho not today >&2\n")
    sshd.chmod(0o755)
    make = [sys.executable, "-c", "from pliant.testing.cluster import virtual_cluster as v; v(3).__enter__()"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$(command -v sshd)" && exec "$@"', str(sshd), *make],
        env={**os.environ, "TMPDIR": str(tmp_path), "PATH": f"{os.environ['PATH']}:/usr/sbin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "does not come up: node01 does not come up: its sshd does not listen; not today" in done.stderr
    assert list(tmp_path.iterdir()) == [sshd]


@pytest.mark.parametrize("nodes", [0, 501])
def test_a_size_that_cannot_be_is_refused(nodes: int) -> None:
    with (
        pytest.raises(PliantError, match=f"a virtual cluster has 1 to 500 nodes, not {nodes}"),
        virtual_cluster(nodes),
    ):
        pass
