"""A look at the frame that runs a loop: what its variables hold, as far as ranks can compare that."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from inspect import CO_GENERATOR, CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from pliant.job.watching.findings import Held
from pliant.job.watching.liveness import flow_of, live_behind
from pliant.mpi.data.movable import Movable

MOST = 64
"""Variables that are compared, and parts of one, such as elements of containers."""
SMALL_BYTES = 4096
MOST_BITS = 4096
"""Of an integer: Python refuses to write much longer ones."""
TEXT = 40
"""Characters of a value that are shown."""
_OURS = str(Path(__file__).parent)
_BEGUN = time.perf_counter() - 5.0
"""A little before this process has come to this line."""


class Unlike(Exception):  # noqa: N818 - it is left out
    """What ranks cannot compare: objects, what is large, what clocks say."""


def looping() -> FrameType | None:
    """The innermost frame that is the program's: it iterates over the job's steps, or calls the job. Generators, such
    as those of a progress bar, are passed over."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the interpreter's way to ask
    while frame is not None and (
        frame.f_code.co_filename.startswith(_OURS) or frame.f_code.co_flags & CO_GENERATOR
    ):
        frame = frame.f_back
    return frame


def prepare(frame: FrameType | None) -> None:
    """A loop is about to begin in this frame, or in the one that has called it for that: what takes a millisecond is
    done before it."""
    for each in (frame, frame and frame.f_back):
        if each is not None:
            flow_of(each.f_code)


def look(frame: FrameType, arrays: Mapping[str, Movable]) -> dict[str, Held]:
    """What the loop's body, which is next, may read of local variables and of the attributes of ``self``: scalars,
    texts, small arrays, arrays of the job, and small containers of these."""
    names = {id(each): name for name, each in arrays.items()}
    live = live_behind(frame.f_code, frame.f_lasti)
    # Before Python 3.13 those of a function are a copy, which would keep blocks of before alive.
    found = frame.f_locals
    variables = [(name, found[name]) for name in sorted(live) if name in found]
    if "self" in found:
        attributes = getattr(found["self"], "__dict__", {})
        variables += [(f"self.{name}", attributes[name]) for name in sorted(attributes)]
    is_copy = frame.f_code.co_flags & CO_OPTIMIZED and isinstance(found, dict)
    if is_copy and not any(
        value is found for value in found.values()
    ):  # locals() gives the program the same dict
        found.clear()
    return dict(_held(variables, names))


def _held(variables: Iterable[tuple[str, Any]], names: Mapping[int, str]) -> Iterator[tuple[str, Held]]:
    left = MOST
    for name, value in variables:
        form = Form(names)
        try:
            data = form.of(value)
            text = f"array {form.arrays[0]!r}" if id(value) in names else _text(value)
        except Exception:  # noqa: BLE001, S112 - Unlike, or what a class of the program raises
            continue
        digest = int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
        yield name, Held(digest, text, (*form.arrays,))
        left -= 1
        if not left:
            return


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        # repr() of an array is slow: this runs between two steps.
        shown = f"array({(value.reshape(-1)[:TEXT] if value.size > TEXT else value).tolist()!r})"
    else:
        shown = repr(value.item() if isinstance(value, np.generic) else value)
    text = " ".join(shown.split())
    return text if len(text) <= TEXT else f"{text[: TEXT - 3]}..."


class Form:
    """Bytes that are equal for what is equal. ``arrays`` are those of the job that were met, of which ``names`` has the
    ids."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.arrays: list[str] = []
        self._names = names
        self._left = MOST

    def of(self, value: Any) -> bytes:  # noqa: PLR0911 - a case each
        """Unlike for what has none, or has more than MOST parts."""
        self._left -= 1
        if self._left < 0:
            raise Unlike
        match value:
            case None:
                return b"none"
            case str() if len(value) <= SMALL_BYTES:
                return b"s" + value.encode(errors="surrogatepass")
            case bytes() if len(value) <= SMALL_BYTES:
                return b"b" + value
            case bool() | int() | float() | complex() | np.number() | np.bool_():
                return b"n" + number(value).encode()
            case np.ndarray() if value.nbytes <= SMALL_BYTES and not value.dtype.hasobject:
                return f"a{value.dtype.str}{value.shape}".encode() + value.tobytes()
            case tuple() | list():
                return b"(" + b",".join(map(self.of, value)) + b")"
            case dict():
                return b"{" + b",".join(map(self.of, value.items())) + b"}"
            case _ if (name := self._names.get(id(value))) is not None:
                self.arrays.append(name)
                return b"@" + name.encode()
            case _:
                raise Unlike


def number(value: Any) -> str:
    """One text for numbers that are equal, of whatever type. Unlike for what is a time of one of the clocks since this
    process began: each rank has another."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        now = time.perf_counter()
        if any(_BEGUN - now <= value - clock <= 0 for clock in (now, time.time())):
            raise Unlike
        if value.is_integer():
            value = int(value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise Unlike
    return str(int(value) if isinstance(value, bool) else value)
