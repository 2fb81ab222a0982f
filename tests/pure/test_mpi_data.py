"""Data that move between the ranks of mpiexec, and between those of one process: the executor and what it carries."""

from __future__ import annotations

import os
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

mpi4py = pytest.importorskip("mpi4py")
np = pytest.importorskip("numpy")

# ruff: noqa: E402 - MPI must not be initialised by the first import
mpi4py.rc.initialize = mpi4py.rc.finalize = False

from pliant.job import environment
from pliant.model.errors import PliantError
from pliant.mpi.data.boxes import boxes
from pliant.mpi.data.delivery import BALANCED, TAGS_EACH, MoveStage, Tagged, unlike
from pliant.mpi.data.movable import Copy, Parcel, Parcels, checked
from pliant.mpi.data.shared import MemoryOffer, read_memory, runs_of
from pliant.mpi.data.verify import checksum
from pliant.plan.data.methods import MoveMethod

MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))


PADDED = np.dtype("i1,f8", align=True)


def run(program: str, ranks: int = 0, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit code, output and errors of a Python text on ``ranks`` ranks under mpiexec, or alone."""
    words = [sys.executable, "-c", program]
    if ranks:
        words = [MPIEXEC, "-n", str(ranks), *words]
    ran = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **(env or {})}
    )
    return ran.returncode, ran.stdout, ran.stderr


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 40))
def test_boxes_make_up_the_whole_and_are_small_and_contiguous(shape: list[int], most: int) -> None:
    seen = np.zeros(shape, "i4")
    for box in boxes(tuple(shape), most):
        assert 0 < seen[box].size <= most
        assert seen[box].flags.c_contiguous
        seen[box] += 1
    assert (seen == 1).all()


@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from(["f8", "i2", "S3", "c16", "i1,f8", PADDED]),
    st.data(),
)
def test_a_checksum_does_not_depend_on_who_holds_what_but_on_what_and_where(
    rows: int, at: int, dtype: Any, data: st.DataObject
) -> None:
    whole = np.zeros((rows, 2), dtype)
    whole.view("u1")[...] = np.arange(whole.nbytes).reshape(rows, 2 * whole.itemsize) % 251
    index = [np.arange(rows, dtype="u8"), np.arange(2, dtype="u8")]

    def of(array: Any, first: int = 0, stop: int = rows) -> int:
        return checksum(array[first:stop], [index[0][first:stop], index[1]], array.shape)

    at = min(at, rows)
    assert (of(whole, 0, at) + of(whole, at)) % 2**64 == of(whole)
    apart = np.zeros((rows, 4), np.dtype((np.void, whole.itemsize)))
    apart[:, ::2] = whole.view(apart.dtype)
    assert of(apart.view(dtype)[:, ::2]) == of(whole)
    if not rows:
        return
    other = whole.copy()
    byte = data.draw(st.integers(0, whole.nbytes - 1))
    other.reshape(-1).view("u1")[byte] ^= 1
    assert of(other) != of(whole)
    assert of(np.ascontiguousarray(whole[::-1])) != of(whole) or rows == 1


METHODS = """
import pathlib, sys
sys.path.insert(0, PROGRAMS)
import layouts
import numpy as np
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.movable import Parcel, Parcels
from pliant.mpi.data.transport import redistribute
from pliant.mpi.wait import Wait

WAYS = (range(4), [3, 1]), ([3, 1], [2]), ([2], [0, 1, 3]), ([0, 1, 3], range(4))

class Baton(mpi.Movable):
    "Something of the program's own: who has it is the first rank."
    name, held = "baton", None
    describe = lambda self: "baton"
    undo = lambda self: None
    settle = lambda self: False
    checksum = lambda self: 0
    def move(self, way):
        here, there = way.sources[0], way.targets[0]
        old, self.held = self.held, np.empty(9, "i8")[::3] if way.rank == there else None
        sends = [Parcel(there, old)] if way.rank == here != there else []
        receives = [Parcel(here, self.held)] if way.rank == there != here else []
        if here == there == way.rank:
            self.held = old
        yield Parcels(sends, receives)

with mpi.malleable() as job:
    whole = np.arange(300 * 400, dtype="f8").reshape(300, 400)
    arrays = {name: job.array(name, *what) for name, what in layouts.ARRAYS.items()}
    columns = job.array("many columns", whole.shape, "f8", mpi.Block(axis=1))
    rows = job.csr("rows", (layouts.ROWS, layouts.COLUMNS), "f4", mpi.Weighted(1 + np.arange(layouts.ROWS) % 5), index="i4")
    job.register(baton := Baton())
    for name, array in arrays.items():
        array.owned[...] = layouts.whole(name, 0)[array.owned_index]
    columns.owned[...] = whole[columns.owned_index]
    rows.put(layouts.cut(layouts.matrix(0), *rows.owned_rows()))
    baton.held = np.array([3, 1, 4]) if job.rank == 0 else None
    for method in ("p2p", "alltoall", "shared"):
        for sources, targets in WAYS:
            redistribute(job._context.arrays.values(), MPI.COMM_WORLD, sources, targets, Wait(30), method)
            for each in job._context.arrays.values():
                each.settle()
        bad = [] if np.array_equal(columns.local, whole[columns.index]) else ["columns"]
        for name, array in arrays.items():
            array.exchange_halo()
            bad += [] if np.array_equal(array.local, layouts.whole(name, 0)[array.index]) else [name]
        bad += [] if layouts.same(rows.local, layouts.cut(layouts.matrix(0), *rows.owned_rows())) else ["rows"]
        bad += [] if (baton.held is None) == (job.rank > 0) else ["baton"]
        bad += [] if job.rank or baton.held.tolist() == [3, 1, 4] else ["baton"]
        found = job.comm.gather(bad)
        if found:
            print(method, found)
"""


@pytest.mark.long
def test_each_method_carries_each_layout_and_sparse_rows_and_what_is_a_programs_own() -> None:
    programs = str(Path(__file__).parents[1] / "live/programs")
    code, out, errors = run(METHODS.replace("PROGRAMS", repr(programs)), 4)
    assert code == 0, errors
    assert out.splitlines() == [f"{method} [[], [], [], []]" for method in ("p2p", "alltoall", "shared")]


def test_a_method_that_there_is_not_is_told_before_anything_is_computed() -> None:
    assert environment.redistribution({}) == environment.redistribution({"PLIANT_REDISTRIBUTE": ""}) == "p2p"
    for text in MoveMethod:
        assert environment.redistribution({"PLIANT_REDISTRIBUTE": text}) == text
    with pytest.raises(PliantError, match="PLIANT_REDISTRIBUTE is 'post'; it must be one of p2p, "):
        environment.redistribution({"PLIANT_REDISTRIBUTE": "post"})


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=3), st.integers(1, 8))
def test_memory_of_this_process_is_read_as_it_lies(axes: list[tuple[int, int]], itemsize: int) -> None:
    size = prod((length * (gap + 1)) for length, gap in axes)
    whole = np.arange(size * itemsize, dtype="u8").astype("u1").view((np.void, itemsize))
    view = whole.reshape([length * (gap + 1) for length, gap in axes])
    view = view[tuple(slice(None, None, gap + 1) for _, gap in axes)]
    offer = MemoryOffer(view.__array_interface__["data"][0], view.shape, view.strides, itemsize, True)
    into = np.zeros(view.shape, view.dtype)
    assert read_memory(os.getpid(), runs_of(offer), into)
    assert into.tobytes() == view.tobytes()
    runs = runs_of(offer)
    assert runs[:, 1].sum() == view.nbytes


PEAK = """
import sys, tracemalloc
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.wait import Wait

with mpi.malleable() as job:
    worst = 0.0
    for number, (shape, layout) in enumerate((
        ((1 << 21,), mpi.Block()), ((512, 1 << 12), mpi.Block(axis=1)), ((1 << 21,), mpi.BlockCyclic(3)),
        ((2, 1 << 10, 1 << 10), mpi.BlockCyclic(axis=2)),
    )):
        tracemalloc.start()
        array = job.array(f"array {number}", shape, "f8", layout)
        for sources, targets in ((range(4), [1, 3]), ([1, 3], range(4))):
            before = array._data.nbytes if array._data is not None else 0
            tracemalloc.reset_peak()
            redistribute([array], MPI.COMM_WORLD, sources, targets, Wait(30), METHOD)
            peak = tracemalloc.get_traced_memory()[1]
            after = array._data.nbytes if array._data is not None else 0
            array.settle()
            worst = max(worst, peak / (before + after))
        tracemalloc.stop()
    every = job.comm.gather(worst)
    if every:
        print(max(every))
"""


@pytest.mark.long
@pytest.mark.parametrize("method", list(MoveMethod))
def test_a_redistribution_takes_less_than_a_tenth_more_than_what_is_held_before_and_after(
    method: str,
) -> None:
    code, out, errors = run(PEAK.replace("METHOD", repr(str(method))), 4)
    assert code == 0, errors
    assert 1.0 <= float(out) <= 1.1


REGISTERED = """
import numpy as np
from pliant import mpi
with mpi.malleable() as job:
    job.array("taken", (4, 4))
    for what in (
        lambda: job.array("taken", (5, 4)),
        lambda: job.csr("taken", (5, 4)),
        lambda: job.value("taken"),
        lambda: job.array("a", (5,), "f8", mpi.Irregular([2, 2])),
        lambda: job.array("a", (5,), "f8", mpi.Weighted([2, 2])),
        lambda: job.array("a", (5,), "f8", mpi.Block(axis=1)),
        lambda: job.array("a", (5,), "f8", mpi.Block(halo=-1)),
        lambda: job.array("a", (5,), "O"),
        lambda: job.array("a", (10.7,)),
        lambda: job.array("a", "12"),
        lambda: job.array("a", (5,), "f8", mpi.Block),
        lambda: job.array("a", (5,), "f8", mpi.Block(axis=0.0)),
        lambda: job.array("a", (5,), "f8", mpi.Block(halo=1.5)),
        lambda: job.array("a", (5,), "f8", mpi.BlockCyclic(2.5)),
        lambda: job.array(None, (5,)),
        lambda: job.value(5),
        lambda: job.register(object()),
        lambda: job.before_resize(None),
        lambda: job.during_resize(3),
        lambda: job.csr("a", (5,)),
        lambda: job.csr("a", (5, 4), "f8", mpi.BlockCyclic()),
        lambda: job.csr("a", (5, 400), "f8", index="i1"),
        lambda: job.csr("b", (3, 3)).put(mpi.Csr(np.array([0, 1, 2]), np.zeros(2, "i4"), np.zeros(2))),
        lambda: job._context.arrays["b"].put(mpi.Csr(np.array([0, 1, 2, 9]), np.zeros(2, "i4"), np.zeros(2))),
        lambda: job._context.arrays["b"].put(mpi.Csr(np.array([0, 1, 2, 2]), np.array([0, 3]), np.zeros(2))),
    ):
        try:
            what()
        except Exception as error:
            print(type(error).__name__, error)
    print(sorted(job._context.arrays), job._context.arrays["b"].local.indptr.tolist())
    cyclic = job.array("cyclic", (4, 5), "f8", mpi.BlockCyclic(axis=1))
    try:
        cyclic.owned_rows()
    except ValueError as error:
        print(error)
    print(cyclic.row_numbers().tolist(), job.array("parts", 2, ("i4", (3,))).local.shape)
    job.during_resize(print)
    for _ in job.steps(1):
        job.after_resize(print)
        try:
            job.during_resize(print)
        except Exception as error:
            print(type(error).__name__, error)
"""


@pytest.mark.long
def test_what_cannot_be_registered_is_told_and_leaves_the_rest_as_it_was() -> None:
    code, out, errors = run(REGISTERED)
    assert code == 0, errors
    said = (
        "PliantError the name 'taken' is taken by another array or value of this job: an array of shape (5, 4) cannot",
        "PliantError the name 'taken' is taken by another array or value of this job: a matrix of shape (5, 4) cannot",
        "PliantError the name 'taken' is taken by another array or value of this job: a value cannot have it as well",
        "ValueError array 'a' of shape (5,): the counts of the layout cover 4 rows of 5",
        "ValueError array 'a' of shape (5,): the layout has 2 weights for 5 rows",
        "ValueError array 'a' of shape (5,): there is no axis 1",
        "ValueError array 'a' of shape (5,): a halo of -1 rows",
        "ValueError array 'a': dtype object holds Python objects",
        "ValueError array 'a': (10.7,) is no shape, which has a whole number for each axis",
        "ValueError array 'a': '12' is no shape, which has a whole number for each axis",
        "TypeError array 'a': <class 'pliant.plan.data.layouts.Block'> is no layout; mpi.Block() is one",
        "ValueError array 'a' of shape (5,): there is no axis 0.0",
        "ValueError array 'a' of shape (5,): a halo of 1.5 rows; it must be a whole number",
        "ValueError array 'a' of shape (5,): a block of 2.5 rows cannot be dealt out",
        "TypeError None is no name: an array of shape (5,) is registered under a text",
        "TypeError 5 is no name: a value is registered under a text",
        "TypeError job.register: <object object at ",
        "TypeError job.before_resize: None cannot be called",
        "TypeError job.during_resize: 3 cannot be called",
        "ValueError matrix 'a': (5,) is no shape of a matrix",
        "ValueError matrix 'a': BlockCyclic(block=1, axis=0) spreads no rows; use Block()",
        "ValueError matrix 'a' has 400 columns, too many for int8",
        "ValueError matrix 'b': 2 rows were put where this rank owns 3",
        "ValueError matrix 'b': indptr goes from 0 to 9, with 2 indices and 2 elements",
        "ValueError matrix 'b' has 3 columns, and indices are 0 to 3",
        "['b', 'taken'] [0, 0, 0, 0]",
        "the rows that a rank owns of array 'cyclic' are not consecutive: ask row_numbers()",
        "[0, 1, 2, 3, 4] (2, 3)",
        "PliantError a function of job.during_resize is registered inside or after the steps() loop, where a newcomer",
    )
    for line, start in zip(out.splitlines(), said, strict=True):
        assert line.startswith(start), line


SCIPY = """
import numpy as np, scipy.sparse as sp
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.wait import Wait

whole = sp.random(57, 33, 0.2, "csr", random_state=1)
with mpi.malleable() as job:
    a = job.csr("a", whole.shape, "f8", mpi.Weighted(np.diff(whole.indptr)), index="i4")
    a.put(whole[slice(*a.owned_rows())])
    for sources, targets in ((range(3), [2, 0]), ([2, 0], [1]), ([1], range(3))):
        redistribute([a], MPI.COMM_WORLD, sources, targets, Wait(20))
        a.settle()
    equal = (a.matrix() != sp.csr_array(whole)[slice(*a.owned_rows())]).nnz == 0
    found = job.comm.gather(equal and np.shares_memory(a.matrix().data, a.local.data))
    if found:
        print(found)
"""


@pytest.mark.long
def test_scipys_matrices_go_in_and_come_out() -> None:
    pytest.importorskip("scipy")
    code, out, errors = run(SCIPY, 3)
    assert (code, out) == (0, "[True, True, True]\n"), errors


FREED = """
import gc
import numpy as np
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Undone
from pliant.mpi.wait import Wait

with mpi.malleable() as job:
    dropped = job.array("dropped", (9,))
    dropped.owned[:] = dropped.row_numbers()
    rows, other = job.array("rows", (9, 2)), job.array("other", (9,))
    other.owned[:] = other.row_numbers()
    del dropped
    gc.collect()
    every = list(job._context.arrays.values())
    redistribute(every, MPI.COMM_WORLD, range(3), [2, 0], Wait(20))
    for each in every:
        each.settle()
    if job.rank == 2:
        rows.local.resize((1, 2), refcheck=False)
    try:
        redistribute(every, MPI.COMM_WORLD, [2, 0], range(3), Wait(20))
        said = "moved"
    except Undone as error:
        said = str(error)
        for each in every:
            each.undo()
    parts = {2: [0, 1, 2, 3, 4], 0: [5, 6, 7, 8], 1: None}
    held = [each._data if each._data is None else each._data.tolist() for each in (every[0], other)]
    found = job.comm.gather((said, held == [parts[job.rank]] * 2))
    if found:
        print(*(f"{each}\\n" for each in found), sep="", end="")
"""


@pytest.mark.long
def test_what_cannot_be_moved_on_one_rank_is_told_on_all_and_nothing_has_moved() -> None:
    code, out, errors = run(FREED, 3)
    assert code == 0, errors
    said = "data cannot be moved: on rank 2 'rows' (ValueError: the program has given its memory back: .local of shape (5, 2) is (1, 2) now)"
    assert out.splitlines() == [str((said, True))] * 3


UNLIKE = """
from mpi4py import MPI
from pliant import mpi
with mpi.malleable() as job:
    WHAT
    for step in job.steps(3):
        print("computed")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            'job.array("rows", (5,), "f8", mpi.Block(halo=job.rank))',
            "there are arrays [('rows', (5,), '<f8', Block(",
        ),
        (
            "job.during_resize(print); job.rank or job.during_resize(repr)",
            "and functions of during_resize: ",
        ),
    ],
)
def test_ranks_that_have_registered_others_are_told_so_each_of_them_before_the_first_step(
    tmp_path: Path, what: str, said: str
) -> None:
    program = tmp_path / "unlike.py"
    program.write_text(UNLIKE.replace("WHAT", what))
    text = f"import pathlib; exec(pathlib.Path({str(program)!r}).read_text())"
    code, out, errors = run(text, 2, {"PLIANT_RESIZE_AT": "2:1"})
    assert code != 0
    assert out == ""
    assert "those of rank 1 differ from those of rank 0; here, on rank " in errors
    assert said in errors


def test_what_a_rank_expects_is_what_the_other_sends_or_it_is_said_of_what_it_is_not() -> None:
    def tagged(lengths: list[int], peer: int) -> list[Tagged]:
        return [Tagged(TAGS_EACH, Parcel(peer, np.zeros(length, "u1"))) for length in lengths]

    for mine, theirs, said in (
        (([8, 3], [2]), ([2], [8, 3]), ""),
        (
            ([8, 3], [2]),
            ([2], [3, 8]),
            "of 'b' rank 0 sends 11 bytes in 2 parts to rank 1, which expects 11 bytes in 2",
        ),
        (
            ([8], [2]),
            ([3], [9]),
            "of 'b' rank 0 sends 8 bytes in 1 parts to rank 1, which expects 9 bytes in 1",
        ),
        (([], []), ([7], []), "of 'b' rank 1 sends 7 bytes in 1 parts to rank 0, which expects 0 bytes in 0"),
        (([0, 8], []), ([], [8, 0]), ""),  # what is empty need not be named on both sides
    ):
        sends, receives = zip(mine, theirs, strict=True)
        stages = [
            MoveStage(tagged(sends[rank], 1 - rank), tagged(receives[rank], 1 - rank), []) for rank in (0, 1)
        ]
        balance = sum(each.balance(rank) for rank, each in enumerate(stages)) % BALANCED
        assert (balance == 0) == (said == "")
        assert unlike([each.lengths() for each in stages], ["a", "b"]) == said


@pytest.mark.parametrize("peer", [1, True, np.int64(1)])
def test_a_stage_may_be_made_of_whatever_can_be_iterated_over_once(peer: int) -> None:
    data = np.arange(4.0)
    made = checked(
        Parcels(
            (Parcel(peer, each) for each in [data]),  # type: ignore[arg-type]
            map(Parcel, [peer], [data]),  # type: ignore[arg-type]
            (Copy(each, each) for each in [data]),  # type: ignore[arg-type]
        ),
        2,
    )
    assert [[each.peer for each in some] for some in (made.sends, made.receives)] == [[1], [1]]
    assert [type(each.peer) for each in (*made.sends, *made.receives)] == [int, int]
    assert [each.view is data for each in (*made.sends, *made.receives)] == [True, True]
    assert [(old is data, new is data) for old, new in made.copies] == [(True, True)]


SHORTER = """
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Undone
from pliant.mpi.wait import Wait

with mpi.malleable() as job:
    counts = [4, 5] if job.rank else [5, 4]
    rows = job.array("rows", (9,), "f8", mpi.Irregular(counts))
    for method in ("p2p", "alltoall", "shared"):
        try:
            redistribute([rows], MPI.COMM_WORLD, range(2), [0], Wait(20), method)
        except Undone as error:
            rows.undo()
            said = str(error)
        found = job.comm.gather((said, rows.local.size))
        if found:
            print(*found)
"""


@pytest.mark.long
def test_a_message_that_is_shorter_than_its_receive_is_refused_before_anything_moves() -> None:
    code, out, errors = run(SHORTER, 2)
    assert code == 0, errors
    said = "data cannot be moved: of 'rows' rank 1 sends 40 bytes in 1 parts to rank 0, which expects 32 bytes in 1"
    assert out.splitlines() == [f"{(said, 5)} {(said, 5)}"] * 3


ODD = """
import os
import numpy as np
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Undone
from pliant.mpi.wait import Wait

class Own(mpi.Movable):
    name, stage, sum = "own", mpi.Parcels(), 0
    describe = lambda self: "own"
    undo = lambda self: None
    settle = lambda self: False
    checksum = lambda self: self.sum
    def move(self, way):
        yield self.stage

with mpi.malleable() as job:
    rows, table = job.csr("rows", (6, 9)), job.array("table", (4, 6), "i8", mpi.Block(axis=1))
    job.register(own := Own())

    def tried(what):
        count = len(range(*rows.owned_rows()))
        rows.put(mpi.Csr(np.arange(count + 1) * 2, np.arange(2 * count) % 9, np.arange(2.0 * count)))
        Own.stage, Own.sum = mpi.Parcels(), 0
        kept = table._data.copy()
        if job.rank == 1:
            what()
        try:
            redistribute(job._context.arrays.values(), MPI.COMM_WORLD, range(2), [0], Wait(20))
            said = "moved"
        except Undone as error:
            said = str(error)
        for each in job._context.arrays.values():
            each.undo()
        table._data = kept
        found = job.comm.gather(said)
        if found:
            print(*set(found))

    def reversed_():
        rows.local.indptr[:] = rows.local.indptr[::-1].copy()

    def own(stage=mpi.Parcels(), sum=0):
        Own.stage, Own.sum = stage, sum

    tried(lambda: rows.local.data.resize(0, refcheck=False))
    tried(lambda: rows.local.indices.resize(3, refcheck=False))
    tried(lambda: rows.local.indptr.resize(0, refcheck=False))
    tried(reversed_)
    tried(lambda: table.local.resize(0, refcheck=False))
    tried(lambda: own(5))
    tried(lambda: own(mpi.Parcels([mpi.Parcel(2, np.zeros(3))])))
    tried(lambda: own(mpi.Parcels([(0, [1, 2])])))
    tried(lambda: own(mpi.Parcels(copies=[mpi.Copy(np.zeros(3), np.zeros(2))])))
    if os.environ["PLIANT_VERIFY"]:
        for sum in (-1, 1 << 64, 1.5):
            tried(lambda: own(sum=sum))
"""


@pytest.mark.long
@pytest.mark.parametrize("verify", ["", "1"])
def test_data_that_the_program_has_broken_on_one_rank_fail_the_resize_on_all(verify: str) -> None:
    code, out, errors = run(ODD, 2, {"PLIANT_VERIFY": verify})
    assert code == 0, errors
    said = [
        "'rows' (ValueError: the program has given its memory back: .local of 6 elements has 6 indices and 0 data now)",
        "'rows' (ValueError: the program has given its memory back: .local of 6 elements has 3 indices and 6 data now)",
        "'rows' (ValueError: the program has changed its memory: .local of 3 rows has 0 row starts now, gone)",
        "'rows' (ValueError: the program has changed its memory: .local of 3 rows has 4 row starts now, from 6 to 0)",
        "'table' (ValueError: the program has given its memory back: .local of shape (4, 3) is (0,) now)",
        "'own' (TypeError: move() made 5 where a stage is an mpi.Parcels)",
        "'own' (ValueError: move() made a parcel for rank 2 of 2)",
        "'own' (TypeError: move() made (0, [1, 2]) where an mpi.Parcel(peer, array) is sent or received)",
        "'own' (ValueError: move() made a copy of shape (3,) and float64 into (2,) and float64)",
    ]
    if verify:
        said += [
            f"'own' cannot be summed up (ValueError: checksum() said {each}, and has to say a whole number from 0 to 2^64 - 1)"
            for each in (-1, 1 << 64, 1.5)
        ]
    assert out.splitlines() == [f"data cannot be moved: on rank 1 {each}" for each in said]


DROPS = """
import numpy as np
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.wait import Wait

with mpi.malleable() as job:
    rows = job.csr("rows", (4, 9))
    rows.put(mpi.Csr(np.arange(3) * 2, np.arange(4), np.array([1.0, 0.0, 0.0, 2.0])))
    held = rows.matrix()
    held.eliminate_zeros()
    del held
    redistribute([rows], MPI.COMM_WORLD, range(2), [0], Wait(20))
    if job.rank == 0:
        print([each.tolist() for each in rows.local])
"""


@pytest.mark.long
def test_elements_that_scipy_drops_in_place_are_dropped() -> None:
    pytest.importorskip("scipy")
    code, out, errors = run(DROPS, 2, {"PLIANT_VERIFY": "1"})
    assert (code, out) == (0, "[[0, 1, 2, 3, 4], [0, 3, 0, 3], [1.0, 2.0, 1.0, 2.0]]\n"), errors
