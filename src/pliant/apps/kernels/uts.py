"""Unbalanced tree search: SHA-1 of a node's children, and the search with a stack of its own.

The tree is that of the UTS distribution with geometric branching of fixed shape: a node is a SHA-1 state, its i-th
child the SHA-1 of that state and i. Nodes are hashed in blocks of several lanes, each lane a node of its own:

``plain``  one lane, unrolled
``ni``     two lanes with the processor's SHA instructions, so that one fills the other's gaps
``wide``   as many lanes as a vector has, unrolled; quicker than ``ni`` where vectors are wide

All are written in LLVM's language, since numba takes 5 s for 80 unrolled rounds of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from pliant.apps.kernels.compiled import intrinsic, kernel, part, target

Words = NDArray[np.uint32]
Counts = NDArray[np.int64]
Search = Callable[[Words, Counts, int, Words, Words], None]
Emit = Callable[[Any, list[Any]], list[Any]]

WORD = ir.IntType(32)
START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
ROUND = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
PADDING = (0x80000000, 0, 0, 0, 0, 0, 0, 0, 0, 192)  # what follows 24 bytes in their block

# A row of the stack: the node's state, the levels below its children, and which children are still to be visited.
STATE, LEVELS, LOWER, UPPER, ROW = 5, 5, 6, 7, 8
GUIDE_BITS = 10

ARCHITECTURE, FEATURES = target()
NI_LANES = 2
# A function of the target alone: it is compiled in, and what is kept on disk is kept by target.
WIDE_LANES = 16 if "avx512f" in FEATURES else 8


def has_ni() -> bool:
    """Whether the processor has SHA-1 instructions that are known here."""
    return ARCHITECTURE == "x86_64" and "sha" in FEATURES


def best() -> str:
    """The quickest of ``plain``, ``ni`` and ``wide`` here."""
    if FEATURES & {"avx2", "avx512f"}:
        return "wide"
    return "ni" if has_ni() else "plain"


def _emit_rounds(builder: Any, words: list[Any]) -> list[Any]:
    """SHA-1 of 24 bytes in each lane: six vectors of words in, five out."""
    kind = words[0].type

    def constant(value: int) -> Any:
        return ir.Constant(kind, value if kind == WORD else [value] * kind.count)

    def rotated(word: Any, by: int) -> Any:
        return builder.or_(builder.shl(word, constant(by)), builder.lshr(word, constant(32 - by)))

    schedule = [*words, *map(constant, PADDING)]
    state = [constant(word) for word in START]
    a, b, c, d, e = state
    for i in range(80):
        if i >= 16:
            far = builder.xor(schedule[(i - 14) % 16], schedule[i % 16])
            near = builder.xor(schedule[(i - 3) % 16], schedule[(i - 8) % 16])
            schedule[i % 16] = rotated(builder.xor(near, far), 1)
        if i < 20:
            mixed = builder.xor(d, builder.and_(b, builder.xor(c, d)))
        elif 40 <= i < 60:
            mixed = builder.or_(builder.and_(b, c), builder.and_(d, builder.or_(b, c)))
        else:
            mixed = builder.xor(builder.xor(b, c), d)
        known = builder.add(e, builder.add(constant(ROUND[i // 20]), schedule[i % 16]))
        a, b, c, d, e = builder.add(builder.add(rotated(a, 5), mixed), known), a, rotated(b, 30), c, d
    return [builder.add(new, old) for new, old in zip((a, b, c, d, e), state, strict=True)]


def _emit_ni(builder: Any, words: list[Any]) -> list[Any]:
    """The same of one lane by the SHA instructions, four rounds each. Vectors hold four words, the first one
    highest."""
    four, byte = ir.VectorType(WORD, 4), ir.IntType(8)

    def instruction(name: str, *arguments: Any) -> Any:
        name = f"llvm.x86.{name}"
        kinds = [argument.type for argument in arguments]
        known = builder.module.globals.get(name)
        return builder.call(
            known or ir.Function(builder.module, ir.FunctionType(four, kinds), name), arguments
        )

    def vector(*parts: Any) -> Any:
        packed = ir.Constant(four, ir.Undefined)
        for index, word in enumerate(reversed(parts)):
            packed = builder.insert_element(
                packed, WORD(word) if isinstance(word, int) else word, WORD(index)
            )
        return packed

    message = [*words, *PADDING]
    schedule = [vector(*message[i : i + 4]) for i in range(0, 16, 4)]
    abcd = first = vector(*START[:4])
    last = vector(START[4], 0, 0, 0)
    added = builder.add(last, schedule[0])
    before = abcd
    for i in range(20):
        if i >= 4:
            half = instruction("sha1msg1", schedule[i % 4], schedule[(i + 1) % 4])
            half = builder.xor(half, schedule[(i + 2) % 4])
            schedule[i % 4] = instruction("sha1msg2", half, schedule[(i + 3) % 4])
        if i > 0:
            added = instruction("sha1nexte", before, schedule[i % 4])
        before, abcd = abcd, instruction("sha1rnds4", abcd, added, byte(i // 5))
    added = instruction("sha1nexte", before, last)
    abcd = builder.add(abcd, first)
    return [builder.extract_element(abcd, WORD(3 - i)) for i in range(4)] + [
        builder.extract_element(added, WORD(3))
    ]


def _in_place(emit: Emit, lanes: int, width: int) -> Any:
    """A function that replaces the first five rows of (6, lanes) words by the SHA-1 of all six, column by column,
    ``width`` columns in a vector.
    """
    from numba.core import types

    kind = WORD if width == 1 else ir.VectorType(WORD, width)

    def sha1(_typing: Any, words: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])

            def pointer(row: int, lane: int) -> Any:
                return builder.bitcast(builder.gep(array.data, [WORD(row * lanes + lane)]), kind.as_pointer())

            firsts = range(0, lanes, width)
            loaded = [[builder.load(pointer(row, lane), align=4) for row in range(6)] for lane in firsts]
            hashed = [emit(builder, message) for message in loaded]
            for lane, state in zip(firsts, hashed, strict=True):
                for row, word in enumerate(state):
                    builder.store(word, pointer(row, lane), align=4)
            return context.get_dummy_value()

        return types.void(words), code

    return intrinsic(sha1)


def _searching(sha1: Callable[[Words], None], lanes: int) -> Search:  # noqa: C901 - it is the search that it makes
    """The search with that hash. Functions cannot be arguments: numba keeps nothing on disk that has their
    addresses."""

    @part
    def search(  # noqa: C901 - loops over one stack and its counters, compiled together
        stack: Words, counts: Counts, n: int, guide: Words, fewest: Words
    ) -> None:
        size, nodes, hashes = counts[0], counts[1], counts[2]
        until = hashes + n
        words = np.zeros((6, lanes), np.uint32)
        levels = np.zeros(lanes, np.uint32)
        while hashes < until and 0 < size <= len(stack) - lanes:
            filled = 0
            room = min(lanes, until - hashes)
            while filled < room and size > 0:
                top = size - 1
                lower, upper = np.int64(stack[top, LOWER]), np.int64(stack[top, UPPER])
                first = max(lower, upper - (room - filled))
                for child in range(first, upper):
                    for i in range(STATE):
                        words[i, filled] = stack[top, i]
                    words[STATE, filled] = child
                    levels[filled] = stack[top, LEVELS]
                    filled += 1
                if first == lower:
                    size = top
                else:
                    stack[top, UPPER] = first
            sha1(words)
            hashes += filled
            nodes += filled
            for lane in range(filled):
                drawn = words[STATE - 1, lane] & np.uint32(0x7FFFFFFF)
                children = np.int64(guide[drawn >> np.uint32(31 - GUIDE_BITS)])
                while drawn >= fewest[children]:
                    children += 1
                if levels[lane] == 1:  # they have no children: no need to hash them
                    nodes += children
                elif children > 0:
                    for i in range(STATE):
                        stack[size, i] = words[i, lane]
                    stack[size, LEVELS] = levels[lane] - np.uint32(1)
                    stack[size, LOWER] = 0
                    stack[size, UPPER] = children
                    size += 1
        counts[0], counts[1], counts[2] = size, nodes, hashes

    return search


sha1_plain = _in_place(_emit_rounds, 1, 1)
sha1_ni = _in_place(_emit_ni, NI_LANES, 1)
sha1_wide = _in_place(_emit_rounds, WIDE_LANES, WIDE_LANES)
_plain, _ni, _wide = (
    _searching(sha1_plain, 1),
    _searching(sha1_ni, NI_LANES),
    _searching(sha1_wide, WIDE_LANES),
)


@kernel
def search_plain(stack: Words, counts: Counts, n: int, guide: Words, fewest: Words) -> None:
    """Visit up to ``n`` nodes from the top of the stack.

    ``counts`` are the rows in use, the nodes found and those hashed, all brought up to date. It ends early
    where the stack has no room for what one more block may put there. ``fewest[k]`` is the smallest hash of a
    node with more than k children, ``guide`` where to begin to look there, by the hash's first bits.
    """
    _plain(stack, counts, n, guide, fewest)


@kernel
def search_ni(stack: Words, counts: Counts, n: int, guide: Words, fewest: Words) -> None:
    """The same with the processor's SHA instructions; only where ``has_ni()``."""
    _ni(stack, counts, n, guide, fewest)


@kernel
def search_wide(stack: Words, counts: Counts, n: int, guide: Words, fewest: Words) -> None:
    """The same with a vector of nodes at a time."""
    _wide(stack, counts, n, guide, fewest)


SEARCHES = {"plain": search_plain, "ni": search_ni, "wide": search_wide}
LANES = {"plain": 1, "ni": NI_LANES, "wide": WIDE_LANES}
