"""Grids on ranks of mpiexec: their communicators, halos under way, and other layouts and shapes in the middle."""

from __future__ import annotations

import pytest
from test_mpi_data import run

TELL = """
said = []

def attempt(*calls):
    for call in calls:
        try:
            call()
        except Exception as error:
            said.append(f"{type(error).__name__} {error}")

def tell(comm):
    # By one rank: what several print at once may be torn.
    for each in comm.gather(said) or []:
        print(*each, sep="\\n")
"""

CARTS = f"""
from mpi4py import MPI
from pliant import mpi
{TELL}
with mpi.malleable() as job:
    a = job.array("a", (8, 9), "f8", mpi.Grid(periods=(True, False)))
    line = job.array("line", 12)
    for step in job.steps(2):
        cart = job.cart
        assert cart is job.cart is a.cart
        i, j = cart.coords
        assert cart.dims == (2, 2) and cart.periods == (True, False) and job.rank == 2 * i + j
        assert cart.row.allgather(job.rank) == [2 * i, 2 * i + 1] and cart.column.allgather(i) == [0, 1]
        assert cart.shift(0) == (2 * (1 - i) + j,) * 2 and cart.shift(1)[j] < 0 <= cart.shift(1)[1 - j]
        assert a.owned_box() == ((4 * i, 4 * i + 4), (5 * j, 5 + 4 * j))
        assert line.cart.dims == (4,) and line.owned_box() == (line.owned_rows(),)
        attempt(lambda: line.cart.row, lambda: a.owned_rows(), lambda: a.row_numbers())
    other = a.cart
attempt(lambda: other.row.barrier())
tell(MPI.COMM_WORLD)
"""


def test_a_grid_has_a_communicator_and_those_of_its_rows_and_columns() -> None:
    code, out, errors = run(CARTS, 4)
    assert code == 0, errors
    lines = out.splitlines()
    assert sum(line.startswith("Exception ") for line in lines) == 4, lines  # the last one is freed
    assert lines.count("PliantError a grid of 1 axes has no rows and columns: take cart.lines") == 8
    assert lines.count("ValueError array 'a' is spread along (0, 1): ask owned_box()") == 16


TURNED = """
import numpy as np
from pliant import mpi
with mpi.malleable() as job:
    a = job.array("a", (8, 9), "f8", mpi.Grid(axes=(1, 0), halo=1, dims=(3, 2)))
    i, j = job.cart.coords
    assert a.owned_box() == ((4 * j, 4 * j + 4), (3 * i, 3 * i + 3))
    assert job.cart.row.allgather(j) == [0, 1] and job.cart.column.allgather(i) == [0, 1, 2]
    whole = np.arange(72.0).reshape(8, 9)
    a.owned[...] = whole[a.owned_index]
    a.exchange_halo()
    assert np.array_equal(a.local, whole[a.index])
    a.to(mpi.Block())
    assert np.array_equal(a.local, whole[a.index])
"""


@pytest.mark.long
def test_ranks_stand_in_the_order_of_the_axes() -> None:
    code, _, errors = run(TURNED, 6)
    assert code == 0, errors


WITHOUT = f"""
from pliant import mpi
{TELL}
with mpi.malleable() as job:
    rows = job.array("rows", 9)
    cyclic = job.array("cyclic", 9, "f8", mpi.BlockCyclic())
    for made in (None, lambda: job.array("a", (4, 4), "f8", mpi.Grid()), lambda: job.array("b", (4, 4), "f8", mpi.Grid(dims=(1, 0)))):
        if made:
            made()
        attempt(lambda: said.append(str(job.cart.dims)))
    attempt(lambda: cyclic.cart)
    tell(job.comm)
"""


def test_which_grid_is_meant_is_asked_where_there_is_none_or_more_than_one() -> None:
    code, out, errors = run(WITHOUT, 2)
    assert code == 0, errors
    assert set(out.splitlines()) == {
        "(2, 1)",
        "ValueError array 'cyclic' is not in blocks: its ranks stand in no grid",
        "PliantError job.cart needs arrays with one common mpi.Grid; this job has 'a', 'b': use array.cart of one of them",
        "PliantError job.cart needs arrays with one common mpi.Grid; this job has none: use array.cart of one of them",
    }


UNDER_WAY = f"""
import numpy as np
from pliant import mpi
{TELL}
with mpi.malleable() as job:
    a = job.array("a", (6, 6), "f8", mpi.Grid(halo=1, periods=True))
    fixed = job.array("fixed", 6, constant=True)
    for step in job.steps(2):
        a.owned[...] = np.arange(36.0).reshape(6, 6)[a.owned_index]
        halo = a.iexchange_halo()
        attempt(a.exchange_halo, a.iexchange_halo, lambda: a.to(mpi.Block()), lambda: a.resize((7, 7)))
        halo.wait()
        assert halo.test() and np.array_equal(a.local, np.arange(36.0).reshape(6, 6)[a.index])
        kept = a.owned
        a.to(mpi.Block(axis=1))
        attempt(
            lambda: kept.fill(1), lambda: a.to(mpi.Weighted([1, 2])), lambda: a.to(3), lambda: a.resize(7), lambda: fixed.to(mpi.Block()),
            lambda: fixed.resize(7), lambda: a.to(mpi.Block(axis=2), at_resize=True),
        )
        a.to(mpi.Grid(halo=1, periods=True))
        assert np.array_equal(a.local, np.arange(36.0).reshape(6, 6)[a.index])
    tell(job.comm)
"""


def test_what_cannot_be_done_is_refused_on_each_rank_and_leaves_the_array_as_it_was() -> None:
    code, out, errors = run(UNDER_WAY, 4)
    assert code == 0, errors
    said = (
        "PliantError exchange_halo of array 'a': its halo is under way since iexchange_halo(); call its wait() first",
        "PliantError iexchange_halo of array 'a': its halo is under way since iexchange_halo(); call its wait() first",
        "PliantError to of array 'a': its halo is under way since iexchange_halo(); call its wait() first",
        "PliantError resize of array 'a': its halo is under way since iexchange_halo(); call its wait() first",
        "ValueError assignment destination is read-only",
        "ValueError array 'a' of shape (6, 6): the layout has 2 weights for 6 rows; each row has one",
        "TypeError array 'a': 3 is no layout; mpi.Block() is one",
        "ValueError array 'a' of shape (6, 6) cannot be resized to (7,)",
        "PliantError to: array 'fixed' was registered with constant=True",
        "PliantError resize: array 'fixed' was registered with constant=True",
        "ValueError array 'a' of shape (6, 6): there is no axis 2",
    )
    assert sorted(out.splitlines()) == sorted(8 * said)


NOT_SO = f"""
import numpy as np
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Undone
from pliant.mpi.wait import Wait
{TELL}
whole = np.arange(60.0).reshape(12, 5)
with mpi.malleable() as job:
    a = job.array("a", whole.shape, "f8", mpi.Grid(halo=1, dims=(3, 0)))
    a.owned[...] = whole[a.owned_index]
    for begin in (lambda: None, a.iexchange_halo):
        halo = begin()
        attempt(lambda: redistribute([a], MPI.COMM_WORLD, range(3), [0, 2], Wait(20)))
        a.undo()
        if halo:
            halo.wait()
        a.exchange_halo()
        assert np.array_equal(a.local, whole[a.index])
    tell(job.comm)
"""


@pytest.mark.long
def test_a_resize_to_a_size_that_a_grid_cannot_have_is_undone() -> None:
    code, out, errors = run(NOT_SO, 3)
    assert code == 0, errors
    no_grid, under_way = out.splitlines()[:2]
    assert no_grid == (
        "Undone data cannot be moved: on ranks 0, 1, 2 'a' (ValueError: array 'a': 2 ranks cannot stand in a grid of "
        "3 x any: give other dims, or keep to sizes that fit, as by mpi.malleable(factor=2))"
    )
    assert "(PliantError: a resize of array 'a': its halo is under way since iexchange_halo()" in under_way


UNLIKE = """
from pliant import mpi
with mpi.malleable() as job:
    a, b = (job.array(name, (6, 6)) for name in "ab")
    for step in job.steps(1):
        WHAT
"""


@pytest.mark.long
def test_ranks_that_take_different_layouts_are_told_so() -> None:
    for what, said in (
        (
            "a.to(mpi.Block(axis=job.rank))",
            "to() of array 'a': all ranks must pass the same arguments; 1 of 3 ranks differ from rank 0",
        ),
        ("(a if job.rank else b).to(mpi.Block(1))", "which is in to() or resize() of 'a'"),
        ("a.gather() if job.rank == 1 else a.resize((7, 7))", "which is in gather() of 'a'"),
        (
            "a.to(mpi.Weighted([1, 1, 1, 1, 1, 1 + job.rank]), at_resize=True)",
            "to() of array 'a': all ranks must pass the same arguments; 2 of 3 ranks differ from rank 0",
        ),
        (
            "a.to(mpi.Block(axis=2 if job.rank == 1 else 1))",
            "to() of array 'a': all ranks must pass the same arguments; 1 of 3 ranks differ from rank 0",
        ),
        (
            "a.resize((7,) if job.rank == 1 else (7, 7))",
            "resize() of array 'a': all ranks must pass the same arguments; 1 of 3 ranks differ from rank 0",
        ),
    ):
        code, _, errors = run(
            UNLIKE.replace("WHAT", what.replace("axis=job.rank", "axis=int(job.rank == 1)")), 3
        )
        assert code != 0
        assert said in errors, errors


LAMBDA = f"""
from pliant import mpi
{TELL}
with mpi.malleable() as job:
    a = job.array("a", (4, 4), "f8", mpi.Grid(dims=lambda ranks: (ranks, 1)))
    attempt(lambda: a.to(mpi.Grid(dims=lambda ranks: (1, ranks))), lambda: said.append(str(a.local.shape)))
    attempt(lambda: job.array("b", 4, "f8", mpi.Grid((0,), dims=(3,))), lambda: job.array("b", 4))
    tell(job.comm)
"""


def test_a_layout_that_no_newcomer_could_be_sent_is_refused() -> None:
    code, out, errors = run(LAMBDA, 2)
    assert code == 0, errors
    first, *rest = out.splitlines()
    assert first.startswith(
        "TypeError array 'a': its layout cannot be pickled, as it has to be for a rank that joins"
    )
    no_grid = "ValueError array 'b': 2 ranks cannot stand in a grid of 3: give other dims, or keep to sizes that fit, as by mpi.malleable(factor=2)"
    assert rest == ["(2, 4)", no_grid, first, "(2, 4)", no_grid]
