"""Values to bytes and back. Large buffers (NumPy's, for instance) travel beside the pickle, uncopied."""

from __future__ import annotations

import io
import pickle
import traceback
from collections import ChainMap
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, ClassVar, cast

import cloudpickle  # type: ignore[import-untyped]

from pliant.apgas.errors import RemoteError, RemoteTraceback
from pliant.apgas.place import script
from pliant.apgas.place.messages import Buffer, Payload

PROTOCOL = 5
LARGE = 1 << 16
"""Bytes from which on a part goes beside the pickle of a message, and an answer at once."""


def _made(file: str, make: Callable[..., CodeType], *parts: object) -> CodeType:
    return make(*parts).replace(co_filename=file)


def _code(code: CodeType) -> tuple[object, ...]:
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)[:2]
    return _made, (code.co_filename, make, *parts)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, but that functions keep the file that they come from: from 3.1.3 on it is left out, and the
    traceback of a task would show no line of the program. And what all places have of the script does not travel."""

    dispatch_table: ClassVar = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, value: Any) -> Any:
        if script.is_everywhere(value):
            return NotImplemented  # by name
        reduced = super().reducer_override(value)
        if reduced is NotImplemented or not script.is_part(value):
            return reduced
        _, (code, _, *rest), (state, slots), *others = reduced
        return script.made, (code, *rest), (state, {**slots, "__globals__": {}}), *others


def _pickled(value: object, keep: Callable[[pickle.PickleBuffer], object] | None = None) -> bytes:
    """The pickle of ``value``, with its large buffers, or without those that are given to ``keep``."""
    file = io.BytesIO()
    Pickler(file, protocol=PROTOCOL, buffer_callback=keep).dump(value)
    return file.getvalue()


def pack(value: object) -> list[Buffer]:
    """The pickle and its buffers, which are views of the value's own. Whatever pickle raises is a TypeError here."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        data = _pickled(value, buffers.append)
        return [data, *(buffer.raw() for buffer in buffers)]
    except Exception as error:
        raise TypeError(f"{type(error).__name__}: {error}") from error


def copied(payload: Payload) -> list[Buffer]:
    """Nobody else's memory: the first part is a pickle of its own already."""
    return [payload[0], *map(bytearray, payload[1:])]


def beside(parts: Sequence[Buffer]) -> list[Buffer]:
    """Parts as they go in a message: what is large beside its pickle."""
    return [_beside(part) for part in parts]


def _beside(part: Buffer) -> Buffer:
    if len(part) >= LARGE:
        # It comes out of the message as the buffer that it stands for.
        return cast("Buffer", pickle.PickleBuffer(part))
    return bytearray(part) if isinstance(part, memoryview) else part


def unpack(payload: Payload) -> Any:
    """The value; whatever its pickle raises. Writable buffers give writable arrays, which share their memory."""
    return pickle.loads(payload[0], buffers=payload[1:])  # noqa: S301 - from a place that has the job's key


def pack_call(fn: Callable[..., object], args: tuple[object, ...], name: str, place: int) -> list[Buffer]:
    """A call for another place; TypeError that names it if it cannot be sent."""
    try:
        return pack((fn, args))
    except TypeError as error:
        raise TypeError(f"{name} cannot be sent to place({place}): {error}") from error


def pack_error(error: BaseException, where: str = "") -> bytes:
    """An exception with its traceback, and where it was raised if it was; its text where it cannot be sent. It is one
    piece, so that several can go in one message."""
    said = "".join(traceback.format_exception(error)).rstrip()
    said = f"raised in {where}:\n{said}" if where else ""
    try:
        data = _pickled((error, said))
        pickle.loads(data)  # noqa: S301 - some exceptions can be pickled but not be made again
    except BaseException:  # noqa: BLE001 - whatever a user's class does there
        data = _pickled((RemoteError(told(error)), said))
    return data


def told(error: BaseException) -> str:
    """Type and text of an exception, with its notes, whatever a user's ``__str__`` does."""
    return "".join(traceback.format_exception_only(error)).rstrip()


def unpack_raised(data: Buffer) -> BaseException:
    """The exception that another place raised; its cause is a RemoteTraceback."""
    try:
        error, said = pickle.loads(data)  # noqa: S301
    except BaseException as why:  # noqa: BLE001 - a module that is not here, for instance
        return RemoteError(f"an exception of another place cannot be read here: {type(why).__name__}: {why}")
    if said:
        error.__cause__ = RemoteTraceback(said)
    found: BaseException = error
    return found


def unpack_error(data: Buffer) -> Exception:
    """The same as an Exception: SystemExit and the like end no finish elsewhere."""
    error = unpack_raised(data)
    if isinstance(error, Exception):
        return error
    remote = RemoteError(told(error))
    remote.__cause__ = error.__cause__
    return remote


def name_of(fn: Callable[..., object]) -> str:
    """What a task is called in messages."""
    named = getattr(fn, "__qualname__", None) or getattr(getattr(fn, "func", None), "__qualname__", None)
    return str(named or type(fn).__name__)
