"""Which MPI a library is, and what follows from that."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.live.node.dialects import DIALECTS, LAUNCHERS
from pliant.model.flavours import (
    INTEL,
    MPICH,
    NETMOD,
    OPEN,
    OTHER,
    TITLES,
    WAYS,
    Mpi,
    identify,
    named,
    way_of,
)

MPICH_41 = """MPICH Version:      4.1.3
MPICH Release date: Mon Feb 26 15:30:02 CST 2024
MPICH ABI:          15:2:3
MPICH Device:       ch4:ofi ucx
MPICH configure:    --with-device=ch4:ofi,ucx --with-pm=hydra:gforker
"""
DEBIAN_12 = "MPICH Version:\t4.0.2\nMPICH Device:\tch4:ucx\n"
CH3 = "MPICH Version:\t3.2.1\nMPICH Device:\tch3:nemesis\n"


@pytest.mark.parametrize(
    ("said", "mpi", "text"),
    [
        (MPICH_41, Mpi(MPICH, (4, 1, 3), ("ofi", "ucx")), "mpich 4.1.3 ofi,ucx"),
        (DEBIAN_12, Mpi(MPICH, (4, 0, 2), ("ucx",)), "mpich 4.0.2 ucx"),
        (CH3, Mpi(MPICH, (3, 2, 1)), "mpich 3.2.1"),
        ("Intel(R) MPI Library 2021.18.1 for Linux* OS\n\n", Mpi(INTEL, (2021, 18, 1)), "intel 2021.18.1"),
        (
            "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11, repo rev: v5.0.11rc1",
            Mpi(OPEN, (5, 0, 11)),
            "openmpi 5.0.11",
        ),
        ("MVAPICH Version: 4.0\n", Mpi(OTHER, (), title="MVAPICH Version: 4.0"), ""),
        ("", Mpi(OTHER, (), title="an MPI that does not say its name"), ""),
    ],
)
def test_a_library_is_known_by_what_it_says(said: str, mpi: Mpi, text: str) -> None:
    assert identify(said) == mpi
    assert mpi.text == text
    if text:
        assert named(text) == mpi


@pytest.mark.parametrize(
    ("text", "environ", "dialect", "resizes"),
    [
        ("mpich", {}, "pmi1", True),
        ("mpich 5.0.2 ucx,ofi", {}, "pmi1", True),
        ("mpich 5.0.2 ucx,ofi", {NETMOD: "ofi"}, "pmi1-ofi", True),
        ("mpich 4.3.2 ofi", {}, "pmi1-ofi", True),
        ("mpich 4.1.3 ofi,ucx", {}, "pmi1-ofi", True),
        ("mpich 4.1.3 ofi,ucx", {NETMOD: "ucx"}, "pmi1", False),
        ("mpich 4.0.2 ucx", {}, "pmi1", False),
        ("mpich 4.0", {}, "pmi1-ofi", True),
        ("mpich 3.4.3 ofi,ucx", {}, "pmi1", False),
        ("mpich 3.4.3 ofi", {}, "pmi1-ofi", False),
        ("intel 2021.18.1", {}, "intel", True),
        ("intel", {}, "intel", True),
        ("intel 2019.9", {}, "pmi1", False),
    ],
)
def test_what_follows(text: str, environ: dict[str, str], dialect: str, resizes: bool) -> None:  # noqa: FBT001
    way = way_of(named(text), environ)
    assert (way.dialect, not way.keeps, way.refused) == (dialect, resizes, "")


@pytest.mark.parametrize("text", ["", "lam", "mpich four", "mpich 4.1 ofi more", "intel 2021."])
def test_what_is_none_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="no MPI"):
        named(text)


versions = st.lists(st.integers(0, 3000), min_size=1, max_size=4).map(tuple)


@given(
    st.sampled_from(sorted(TITLES)),
    versions,
    st.sets(st.sampled_from(["ucx", "ofi"])),
    st.sampled_from(["", "ucx", "ofi"]),
)
def test_there_is_a_way_for_every_version(
    flavour: str, version: tuple[int, ...], netmods: set[str], said: str
) -> None:
    mpi = Mpi(flavour, version, tuple(sorted(netmods)))
    assert named(mpi.text) == mpi
    way = way_of(mpi, {NETMOD: said} if said else {})
    assert way.refused or {way.dialect_of(one_world=each) for each in (False, True)} <= DIALECTS.keys()


def test_each_row_names_what_shows_it() -> None:
    root = Path(__file__).parents[2]
    for way in WAYS:
        if not way.keeps and not way.refused:
            assert way.test
        assert not way.test or (root / way.test).is_file(), way


@pytest.mark.parametrize(
    ("name", "reaches"),
    [
        ("OMPI_MCA_btl", True),
        ("I_MPI_FABRICS", True),
        ("I_MPI_PIN", True),
        ("FI_PROVIDER", True),
        ("MPIR_CVAR_CH4_NETMOD", True),
        ("OMPI_MCA_num_procs", False),
        ("OMPI_COMM_WORLD_RANK", False),
        ("PMIX_NAMESPACE", False),
        ("PMI_FD", False),
        ("I_MPI_PMI_LIBRARY", False),
        ("MPI_LOCALRANKID", False),
    ],
)
def test_what_a_user_sets_reaches_the_ranks_and_what_a_launcher_sets_does_not(
    name: str,
    reaches: bool,  # noqa: FBT001
) -> None:
    assert name.startswith(LAUNCHERS) != reaches
