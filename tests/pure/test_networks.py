"""By which network MPICH's ranks reach each other: what is kept of it, and what a trial tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.cli.doctor_hosts import DONE, Trial
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


def test_a_trial_names_the_call_at_which_it_ended() -> None:
    hung = Trial("ucx", "MPI_Dist_graph_create", "it was not over within 20 s", 0.0).finding
    assert (hung.ok, hung.needed) == (False, False)
    assert hung.found == "ended at MPI_Dist_graph_create: it was not over within 20 s"
    assert Trial("ofi", DONE, "", 1.25).finding[:3] == ("MPI over ofi", True, "messages and joins, in 1.2 s")
