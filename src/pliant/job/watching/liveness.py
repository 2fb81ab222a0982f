"""Which variables of a function, or of a script, may be read before they are set anew: live variables, by bytecode.

A variable that each step sets before it reads it may differ on a newcomer, and nothing is wrong.
"""

from __future__ import annotations

import dis
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType
from typing import NamedTuple

_ACCESS = re.compile("(LOAD|STORE|DELETE)_(?:FAST|NAME)")
_ENDS = re.compile("JUMP_(?:FORWARD|BACKWARD|ABSOLUTE)|RETURN_|RAISE_VARARGS|RERAISE")
"""Instructions behind which the next one is not the next."""
_JUMPS = {*dis.hasjrel, *dis.hasjabs}


class Flow(NamedTuple):
    """Of a code: the offsets of its instructions, the variables that are live before each, and those that are live
    everywhere, as other code reads them too."""

    offsets: list[int]
    live: list[frozenset[str]]
    always: frozenset[str]


def live_behind(code: CodeType, offset: int) -> frozenset[str]:
    """The variables that may be read before they are set, when the instruction at ``offset`` has been done and the
    next one follows: of the FOR_ITER of a loop, where its body begins."""
    flow = flow_of(code)
    following = bisect_right(flow.offsets, offset)
    return flow.always | (flow.live[following] if following < len(flow.live) else frozenset())


@lru_cache(maxsize=16)
def flow_of(code: CodeType) -> Flow:
    """The live variables of all instructions, to a fixed point from the last to the first."""
    instructions = list(dis.get_instructions(code))
    offsets = [each.offset for each in instructions]
    at = {offset: number for number, offset in enumerate(offsets)}
    bits: dict[str, int] = {}
    steps: list[tuple[int, int, tuple[int, ...], tuple[int, ...]]] = []
    handlers = _handlers(code, offsets, at)
    for number, each in enumerate(instructions):
        reads, sets = _effect(each, bits)
        ends = _ENDS.match(each.opname) or number + 1 == len(instructions)
        following = (*(() if ends else (number + 1,)), *((at[each.argval],) if each.opcode in _JUMPS else ()))
        steps.append((reads, ~sets, following, handlers[number]))
    live, changed = [0] * len(steps), True
    while changed:
        changed = False
        for number in range(len(steps) - 1, -1, -1):
            reads, kept, following, raised = steps[number]
            found = 0
            for after in following:
                found |= live[after]
            found = found & kept | reads
            for after in raised:
                found |= live[after]
            if found != live[number]:
                live[number], changed = found, True
    return Flow(offsets, _named(live, bits), _always(code))


def _effect(instruction: dis.Instruction, bits: dict[str, int]) -> tuple[int, int]:
    """What it reads, and what it sets that it has not read before, each as bits."""
    actions = _ACCESS.findall(instruction.opname)
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    reads = sets = 0
    for action, name in zip(actions, names, strict=False):
        bit = bits.setdefault(name, 1 << len(bits))
        if action == "LOAD":
            reads |= bit & ~sets
        else:
            sets |= bit
    return reads, sets


def _handlers(code: CodeType, offsets: list[int], at: dict[int, int]) -> list[tuple[int, ...]]:
    """Where each instruction may go by an exception."""
    found: list[tuple[int, ...]] = [()] * len(offsets)
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        first, last = bisect_right(offsets, entry.start - 1), bisect_right(offsets, entry.end - 1)
        for number in range(first, last):
            found[number] = (*found[number], at[entry.target])
    return found


def _named(live: list[int], bits: dict[str, int]) -> list[frozenset[str]]:
    known = {bit: frozenset(name for name, each in bits.items() if each & bit) for bit in {*live}}
    return [known[each] for each in live]


def _always(code: CodeType) -> frozenset[str]:
    """What functions within this code see of it: its cells, and of a script all that they read as globals."""
    cells = frozenset((*code.co_cellvars, *code.co_freevars))
    if code.co_flags & CO_OPTIMIZED:
        return cells
    return cells.union(*(_globals(each) for each in _within(code)))


def _within(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _within(each)


def _globals(code: CodeType) -> Iterator[str]:
    return (each.argval for each in dis.get_instructions(code) if each.opname in {"LOAD_GLOBAL", "LOAD_NAME"})
