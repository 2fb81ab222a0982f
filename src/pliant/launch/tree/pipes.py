"""What the processes of one node write and read: named pipes, which nobody but their user can open."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from pliant.launch.loop import Loop
from pliant.live.tree.part import LineCutter
from pliant.protocol import launching as t

KEEP = 1 << 20
"""Bytes of output that are kept in memory; what is more goes to a file until there is room on its way."""


class Spill:
    """First in, first out, of lines with a size: in memory, or beyond ``KEEP`` in a file without a name, of at most
    ``limit`` bytes."""

    def __init__(self, limit: int = 1 << 30) -> None:
        self.limit = limit
        self._lines: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._file: IO[bytes] | None = None
        self._heads: deque[tuple[int, int, int]] = deque()
        """Of what is in the file: size, where it begins, how long it is."""
        self._end = 0
        self._late: deque[tuple[int, bytes]] = deque()
        """What came behind those, when the disk or the file was full."""

    def __bool__(self) -> bool:
        return bool(self._lines or self._heads or self._late)

    @property
    def is_full(self) -> bool:
        """Neither memory nor the file has room: who writes has to wait."""
        return self._size > 2 * KEEP

    def put(self, size: int, line: bytes) -> None:
        if (self._heads or self._size > KEEP) and not self._late and self._write(size, line):
            return
        (self._late if self._heads or self._late else self._lines).append((size, line))
        self._size += len(line)

    def _write(self, size: int, line: bytes) -> bool:
        if self._end + len(line) > self.limit:
            return False
        try:
            if self._file is None:
                import tempfile  # seldom needed, and slow to load

                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open for as long as this lives
            if os.pwrite(self._file.fileno(), line, self._end) < len(line):
                return False
        except OSError:
            return False
        self._heads.append((size, self._end, len(line)))
        self._end += len(line)
        return True

    def peek(self) -> int:
        """The size of the next one."""
        return (self._lines or self._heads or self._late)[0][0]

    def get(self) -> bytes:
        if self._lines or not self._heads or self._file is None:
            _, line = (self._lines or self._late).popleft()
            self._size -= len(line)
            return line
        _, at, length = self._heads.popleft()
        line = os.pread(self._file.fileno(), length, at)
        if not self._heads:
            self._file.truncate(0)
            self._end = 0
        return line

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Source:
    """One stream of one process."""

    def __init__(self, path: str, rank: int, *, error: bool) -> None:
        os.mkfifo(path, 0o600)
        self.reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.held = os.open(path, os.O_WRONLY)
        """So that it does not end before its process has opened it."""
        self.rank = rank
        self.error = error
        self.cutter = LineCutter()

    def let_go(self) -> None:
        if self.held >= 0:
            os.close(self.held)
            self.held = -1


class Pipes:
    """Those of the processes ``ranks``, in ``folder``; process ``reads`` has an input. ``put`` takes what is written,
    ``read`` how many bytes of input have been passed on."""

    def __init__(  # noqa: PLR0913, PLR0917 - what they are of, and who takes what
        self,
        loop: Loop,
        folder: Path,
        ranks: Iterable[int],
        reads: int,
        put: Callable[[t.Output], None],
        read: Callable[[int], None],
    ) -> None:
        self.prefix = f"{folder}/"
        self._put = put
        self._tell_read = read
        self._passed_on = 0
        self._loop = loop
        self._sources: list[_Source] = []
        self._input = -1
        self._typed: deque[bytes] = deque()
        self._paused = False
        folder.mkdir(mode=0o700)
        for rank in ranks:
            self._sources += (
                _Source(f"{self.prefix}{rank}.out", rank, error=False),
                _Source(f"{self.prefix}{rank}.err", rank, error=True),
            )
            path = Path(f"{self.prefix}{rank}.in")
            if rank == reads:
                os.mkfifo(path, 0o600)
                self._input = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            else:
                path.symlink_to(os.devnull)
        for source in self._sources:
            self._loop.add_reader(source.reading, self._read, source)

    def _read(self, source: _Source) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(source.reading, 65536)
        except BlockingIOError:
            return False
        for lines in source.cutter.feed(data):
            self._put(t.Output(source.rank, lines, source.error))
        if not data:
            self._end(source)
        return bool(data)

    def _end(self, source: _Source) -> None:
        source.let_go()
        self._sources.remove(source)
        self._loop.remove_reader(source.reading)
        os.close(source.reading)
        if rest := source.cutter.rest():
            self._put(t.Output(source.rank, rest, source.error))

    def ended(self, rank: int) -> None:
        """The process has ended: read all that it has written. What it has left behind may write on."""
        for source in [each for each in self._sources if each.rank == rank]:
            source.let_go()
            while self._read(source):
                pass

    def pause(self, *, on: bool) -> None:
        """Let those who write wait."""
        if on != self._paused:
            self._paused = on
            for source in self._sources:
                if on:
                    self._loop.remove_reader(source.reading)
                else:
                    self._loop.add_reader(source.reading, self._read, source)

    def type(self, data: bytes) -> None:
        """Input for the process that reads it; nothing is its end."""
        if self._input >= 0:
            self._typed.append(data)
            self._write()

    def _write(self) -> None:
        self._loop.remove_writer(self._input)
        while self._typed:
            data = self._typed.popleft()
            if not data:
                os.close(self._input)
                self._input = -1
                self._typed.clear()
                return
            try:
                written = os.write(self._input, data)
            except BlockingIOError:
                written = 0
            if written:
                self._passed_on += written
                self._tell_read(self._passed_on)
            if written < len(data):
                self._typed.appendleft(data[written:])
                self._loop.add_writer(self._input, self._write)
                return

    def close(self) -> None:
        for source in list(self._sources):
            self._end(source)
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = -1
        folder = Path(self.prefix)
        with suppress(OSError):
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
