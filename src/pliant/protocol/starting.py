"""Whether a command could be started at all: it travels to the node's agent as one line, and the kernel bounds
what a program is given. Asked at submission, because a start that fails costs the job, and a line that is too
long would cost the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pliant.model.world import MpiWorld
from pliant.protocol import codec
from pliant.protocol.messages import StartGroup

ARGUMENT_BYTES = 128 << 10
"""The kernel's MAX_ARG_STRLEN: of one argument or one variable ``NAME=VALUE``, with the zero that ends it."""
MOST_BYTES = 6 << 20
"""The kernel's bound on all of them together, however large the stack may be."""
ADDED_BYTES = 16 << 10
"""Kept for the variables that the agent adds, and for the interpreter that a script names."""
POINTER_BYTES = 8
REMEDY = "put what is long into a file"


def start_problem(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    output: str,
    room: int,
) -> str | None:
    """Why no agent could start ``command`` in ``cwd`` with its output going to ``output``, or None.

    ``env`` travels with the command; ``room`` is what is left for both, in bytes, beside the environment that
    the agent has itself.
    """
    for what, text in _texts(command, env, cwd, output):
        try:
            size = len(text.encode()) + 1
        except UnicodeEncodeError:
            return f"{what}: {_shown(text)} is no text in UTF-8, and only such text can be passed on"
        if "\0" in text:
            return f"{what}: {_shown(text)} has a zero byte in it, and no program can be given one"
        if size > ARGUMENT_BYTES:
            most = f"the kernel takes {ARGUMENT_BYTES - 1:,}"
            return f"{what}: {_shown(text)} has {size - 1:,} bytes, and {most} at most; {REMEDY}"
    if (total := size_of(command) + size_of_env(env)) > room:
        return f"command and environment: {total:,} bytes, and the kernel leaves {max(0, room):,} for them; {REMEDY}"
    order = StartGroup(0, 0, MpiWorld(0, (1,)), tuple(command), dict(env), cwd, output, "")
    if (line := len(codec.encode(order))) > codec.MAX_LINE:
        return f"command and environment: {line:,} bytes as a message, and the most is {codec.MAX_LINE:,}; {REMEDY}"
    return None


def room_beside(inherited: Mapping[str, str], allowed: int) -> int:
    """What is left for a command and its environment beside the ``inherited`` one, of the bytes that the system
    allows for all."""
    return min(allowed, MOST_BYTES) - ADDED_BYTES - size_of_env(inherited)


def size_of(strings: Iterable[str]) -> int:
    """What the kernel counts for them: bytes with a zero behind each, and pointers."""
    return sum(len(each.encode(errors="surrogateescape")) + 1 + POINTER_BYTES for each in strings)


def size_of_env(env: Mapping[str, str]) -> int:
    return size_of(f"{name}={value}" for name, value in env.items())


def _texts(
    command: Sequence[str], env: Mapping[str, str], cwd: str, output: str
) -> Iterator[tuple[str, str]]:
    """What travels, each with what to call it; a variable together with its name, as the program gets it."""
    yield from (("command", word) for word in command)
    yield from ((f"env.{_shown(name)[1:-1]}", f"{name}={value}") for name, value in env.items())
    yield "cwd", cwd
    yield "the file of its output", output


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
