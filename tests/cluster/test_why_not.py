"""Where no virtual cluster can be had, the reason says what to do; here by taking away what is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pliant.model.errors import PliantError
from pliant.testing.cluster import virtual_cluster, why_not

ASK = [sys.executable, "-c", "from pliant.testing.cluster import why_not; print(why_not())"]


def asked(*within: str) -> str:
    done = subprocess.run([*within, *ASK], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_it_can_be_had_here() -> None:
    assert why_not() == ""
    assert asked() == ""


def test_it_needs_root() -> None:
    nobody = ["setpriv", "--reuid=65534", "--inh-caps=-all", "--bounding-set=+dac_override"]
    assert "need root" in asked(*nobody)


def test_it_needs_sshd() -> None:
    hidden = 'mount --bind /dev/null $(command -v sshd || echo /usr/sbin/sshd) && exec "$@"'
    said = asked("unshare", "--mount", "sh", "-c", hidden, "sh")
    assert said == "virtual clusters need sshd: apt-get install openssh-server"


def test_it_needs_namespaces() -> None:
    said = asked("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    assert "refused here (unshare: unshare failed: Operation not permitted)" in said
    assert "--privileged" in said


@pytest.mark.parametrize("nodes", [0, 501])
def test_a_size_that_cannot_be_is_refused(nodes: int) -> None:
    with (
        pytest.raises(PliantError, match=f"a virtual cluster has 1 to 500 nodes, not {nodes}"),
        virtual_cluster(nodes),
    ):
        pass
