"""N-Queens: the placements below the partial ones on a stack, with sets of columns as bits or by looking at the board.

The first column of a row is always the set of columns that are still to be tried in the next row of the board, and a
task is one of them: so both kinds of stack are split alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.apps.kernels.compiled import kernel

Rows = NDArray[np.uint32]
Counts = NDArray[np.int64]

# A row for bits: the columns to try, those taken, and those that the diagonals take in the next row.
FREE, TAKEN, LEFT, RIGHT, BITS_ROW = 0, 1, 2, 3, 4
# A row for the board: the columns to try (as above), how many queens there are, and their columns.
QUEENS, FIRST_QUEEN = 1, 2


@kernel
def place_by_bits(stack: Rows, counts: Counts, n: int, columns: int) -> None:
    """Try about ``n`` places, and at most a board's depth more.

    ``counts`` are the rows in use, solutions and places tried, all brought up to date. It ends early where the stack
    has no room for a whole descent.
    """
    all_columns = np.uint32((1 << columns) - 1)
    size, solutions, tried = counts[0], counts[1], counts[2]
    until = tried + n
    while tried < until and 0 < size <= len(stack) - 32:
        size -= 1
        free, taken = stack[size, FREE], stack[size, TAKEN]
        left, right = stack[size, LEFT], stack[size, RIGHT]
        while free != 0:
            queen = free & (~free + np.uint32(1))
            free ^= queen
            if free != 0:
                stack[size, FREE] = free
                stack[size, TAKEN] = taken
                stack[size, LEFT] = left
                stack[size, RIGHT] = right
                size += 1
            taken |= queen
            left = (left | queen) << np.uint32(1)
            right = (right | queen) >> np.uint32(1)
            free = all_columns & ~(taken | left | right)
            tried += 1
        if taken == all_columns:
            solutions += 1
    counts[0], counts[1], counts[2] = size, solutions, tried


@kernel
def place_by_board(stack: Rows, counts: Counts, n: int, columns: int) -> None:
    """The same by comparing each place with every queen on the board, as the paper's program does."""
    all_columns = np.uint32((1 << columns) - 1)
    size, solutions, tried = counts[0], counts[1], counts[2]
    until = tried + n
    while tried < until and 0 < size < len(stack):
        top = size - 1
        free = stack[top, FREE]
        queen = free & (~free + np.uint32(1))
        column = np.int64(0)
        while queen > np.uint32(1) << np.uint32(column):
            column += 1
        queens = np.int64(stack[top, QUEENS])
        free ^= queen
        tried += 1
        stack[top, FREE] = free
        if free == 0:
            size = top
        safe = True
        for row in range(queens):
            other = np.int64(stack[top, FIRST_QUEEN + row])
            if other == column or abs(other - column) == queens - row:
                safe = False
                break
        if safe and queens + 1 == columns:
            solutions += 1
        elif safe:
            for row in range(queens):
                stack[size, FIRST_QUEEN + row] = stack[top, FIRST_QUEEN + row]
            stack[size, FIRST_QUEEN + queens] = column
            stack[size, QUEENS] = queens + 1
            stack[size, FREE] = all_columns
            size += 1
    counts[0], counts[1], counts[2] = size, solutions, tried
