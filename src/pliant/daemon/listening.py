"""A controller's own end of ``control``: its directory, and the socket that takes orders from other terminals."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec

from pliant.daemon import control
from pliant.daemon.control import REQUEST_BYTES, ControlAnswer, ControlRequest
from pliant.launch import CONTROL
from pliant.model.deadlines import COMMAND_ANSWER_S, COMMAND_DRAIN_S
from pliant.model.errors import PliantError


def new_runtime() -> tuple[str, Path]:
    """A new run's id and directory; what runs that were killed have left behind is removed on the way."""
    control.runs()
    run = secrets.token_hex(4)
    path = control.base() / run
    path.mkdir(mode=0o700)
    return run, path


async def listen(runtime: Path, answer: Callable[[ControlRequest], ControlAnswer]) -> asyncio.Server:
    """Answer requests on the run's control socket until the server is closed."""
    decoder = msgspec.json.Decoder(ControlRequest)

    async def reply(reader: asyncio.StreamReader) -> ControlAnswer:
        try:
            line = await reader.readline()
        except ValueError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COMMAND_DRAIN_S):
                    while await reader.read(REQUEST_BYTES):
                        pass  # what is left unread when we close would take the answer with it
            return ControlAnswer(error=f"a request is one line of at most {REQUEST_BYTES:,} bytes")
        try:
            return answer(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, PliantError) as error:
            return ControlAnswer(error=str(error))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(COMMAND_ANSWER_S):
                writer.write(msgspec.json.encode(await reply(reader)) + b"\n")
                await writer.drain()
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            pass  # the other end is gone, or says nothing, or the run ends
        finally:
            writer.close()

    path = runtime / CONTROL
    server = await asyncio.start_unix_server(serve, path=str(path), limit=REQUEST_BYTES)
    path.chmod(0o600)
    return server
