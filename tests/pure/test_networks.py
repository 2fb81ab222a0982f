"""By which network MPICH's ranks reach each other: what is kept of it, and what a trial tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.cli.doctor_hosts import DONE, Trial, trial_of, verdict
from pliant.daemon import networks
from pliant.model.flavours import NETMOD


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_launches_take_what_works_on_all_their_nodes() -> None:
    networks.keep(["a", "b"], "ofi")
    networks.keep(["b", "c"], "ucx")
    taken = {hosts: networks.kept(hosts) for hosts in ("a", "bc", "ab", "ad", "d")}
    assert taken == {"a": "ofi", "bc": "ucx", "ab": "", "ad": "", "d": ""}


def test_what_the_user_has_set_stays() -> None:
    networks.keep(["a"], "ofi")
    environ: dict[str, str] = {}
    networks.take(["a"], environ)
    assert environ == {NETMOD: "ofi"}
    own = {NETMOD: "ucx"}
    networks.take(["a"], own)
    assert own == {NETMOD: "ucx"}


@pytest.mark.parametrize("written", [b"", b"[]", b'{"a": 3}', b"\xff"])
def test_a_file_that_cannot_be_read_says_nothing(written: bytes) -> None:
    networks.kept_in().parent.mkdir()
    networks.kept_in().write_bytes(written)
    assert not networks.kept(["a"])


def told(code: int, *steps: str, ended: bool = True) -> dict[str, Any]:
    """What a launch tells of two ranks, the second of which complains."""
    outputs = [
        {"stdout": "".join(f"{step}\n" for step in steps), "stderr": ""},
        {"stdout": "", "stderr": "Traceback (most recent call last):\nOSError: no way" if code == 1 else ""},
    ]
    return {
        "code": code,
        "why": "it was not over",
        "phases": {"ended": 1.5} if ended else {},
        "outputs": outputs,
    }


def test_a_network_that_hangs_at_the_end_does_not_work() -> None:
    hung = trial_of("ucx", told(124, "MPI_Barrier", DONE, ended=False))
    assert (hung.step, hung.finding.ok) == ("MPI_Finalize", False)
    good = trial_of("ofi", told(0, "MPI_Barrier", DONE))
    assert verdict(["a", "b"], [hung, good]).found.startswith("ofi: ")
    assert networks.kept(["a", "b"]) == "ofi"


def test_what_has_failed_now_is_kept_no_longer() -> None:
    networks.keep(["a", "b"], "ofi")
    failed = trial_of("ofi", told(1, "MPI_Barrier"))
    assert failed.finding.found == "ended at MPI_Barrier: OSError: no way"
    assert not verdict(["a", "b"], [failed]).ok
    assert not networks.kept(["a", "b"])


def test_a_trial_names_the_call_at_which_it_ended() -> None:
    hung = Trial("ucx", "MPI_Dist_graph_create", "it was not over within 20 s", 0.0).finding
    assert (hung.ok, hung.needed) == (False, False)
    assert hung.found == "ended at MPI_Dist_graph_create: it was not over within 20 s"
    assert Trial("ofi", DONE, "", 1.25).finding[:3] == ("MPI over ofi", True, "messages and joins, in 1.2 s")
