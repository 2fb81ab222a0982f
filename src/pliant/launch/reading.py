"""Connections of asyncio that are read into one buffer, which is kept.

asyncio's own streams make a buffer of 256 KiB for every read, which the system maps and unmaps again: that takes longer
than the rest of passing a short message on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from pliant.protocol import codec

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_BUFFER = memoryview(bytearray(65536))
"""Of all connections: what was read is taken out before the next one is."""


class _Reading(asyncio.StreamReaderProtocol, asyncio.BufferedProtocol):
    """asyncio's protocol of streams, which here says where to read into."""

    def __init__(
        self,
        connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None] | None]
        | None = None,
    ) -> None:
        self.reader = asyncio.StreamReader(limit=codec.MAX_LINE)
        super().__init__(self.reader, connected)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(_BUFFER[:nbytes]))


async def over(sock: socket.socket) -> Ends:
    """Both ends of a stream over a socket that is connected."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(_Reading, sock=sock)
    return protocol.reader, asyncio.StreamWriter(transport, protocol, protocol.reader, loop)


async def unix(path: Path) -> Ends:
    """Connect to a Unix socket; OSError if nobody listens there."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_unix_connection(_Reading, str(path))
    return protocol.reader, asyncio.StreamWriter(transport, protocol, protocol.reader, loop)


async def serve_unix(
    connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None] | None],
    path: Path | str,
) -> asyncio.Server:
    """Listen at a Unix socket; ``connected`` is called with both ends of every connection."""
    return await asyncio.get_running_loop().create_unix_server(lambda: _Reading(connected), str(path))
