"""Our standard input, passed on as far as there is room for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

AHEAD = 1 << 16
"""Bytes that may be on their way."""


class Typed:
    """``send`` gets what is read; nothing is its end."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self.begun = False
        self._sent = self._read = 0
        self._open = self._waiting = self._is_file = False

    def begin(self) -> None:
        """Somebody is there to read it. A terminal's is read only while we are in front there: else we would be
        stopped."""
        self.begun = True
        if not (os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()):
            self._open = True
            self._on()

    def read(self, total: int) -> None:
        """So many bytes have been passed on."""
        self._read = total
        if self._open and not self._waiting:
            self._on()

    def end(self) -> None:
        self._open = False
        self._off()

    def _on(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = True
        try:
            if not self._is_file:
                loop.add_reader(0, self._type)
                return
        except PermissionError:  # a file: it is always ready, and cannot be waited for
            self._is_file = True
        loop.call_soon(self._type)

    def _off(self) -> None:
        self._waiting = False
        if not self._is_file:
            asyncio.get_running_loop().remove_reader(0)

    def _type(self) -> None:
        if not self._open:
            return
        if self._sent - self._read >= AHEAD:
            self._off()  # until there is room
            return
        try:
            data = os.read(0, AHEAD)
        except OSError:
            data = b""
        self._sent += len(data)
        self._send(data)
        if not data:
            self.end()
        elif self._is_file:
            asyncio.get_running_loop().call_soon(self._type)
