"""A process that is asked line by line, over its standard input and output, with a deadline for each answer."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from pliant.model.limits import ANSWER_BYTES

END_S = 2.0
"""A process that is not asked any more sees the end of its input, and has so long to end by itself."""
LAST_S = 1.0
"""One that closes its output has so long to end, so that its exit code can be told."""
CHUNK = 1 << 16


class NoAnswer(Exception):  # noqa: N818 - it is what happened, in words that go behind the name of who was asked
    """The process has not answered as it should; the text says what it did instead."""


class AskedProcess:
    """``words`` as a command, in a process group of its own: a Ctrl-C is for who asks.

    Its standard error is that of this process. ``close`` ends it, and so does the end of the thread that made it.
    OSError if it cannot be started.
    """

    def __init__(self, words: Sequence[str], deadline_s: float) -> None:
        from pliant.launch.processes import die_with_parent

        self._deadline_s = deadline_s
        self._process = subprocess.Popen(
            words, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no lock that a thread could hold
        )  # fmt: skip
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._pipes = self._process.stdin, self._process.stdout
        self._to, self._from = (pipe.fileno() for pipe in self._pipes)
        os.set_blocking(self._to, False)
        self._writable, self._readable = select.poll(), select.poll()
        self._writable.register(self._to, select.POLLOUT)
        self._readable.register(self._from, select.POLLIN)

    def ask(self, line: bytes) -> bytes:
        """The one line that it answers to ``line``, both with their newlines; NoAnswer."""
        deadline = time.monotonic() + self._deadline_s
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self._to, left) :]
            except BlockingIOError:
                self._wait(self._writable, deadline, "read what it was told")
            except BrokenPipeError:
                break  # what it has said by then tells more
        answer = bytearray()
        while b"\n" not in answer[-CHUNK:]:
            if len(answer) > ANSWER_BYTES:
                raise NoAnswer(f"answered more than {ANSWER_BYTES:,} bytes without the end of a line")
            self._wait(self._readable, deadline, "answer")
            part = os.read(self._from, CHUNK)
            if not part:
                raise self._gone()
            answer += part
        if answer.index(b"\n") != len(answer) - 1:
            raise NoAnswer(f"answered more than one line: {shown(answer)}")
        return bytes(answer)

    def _wait(self, ready: select.poll, deadline: float, what: str) -> None:
        if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise NoAnswer(f"did not {what} within {self._deadline_s:g} s")

    def _gone(self) -> NoAnswer:
        try:
            code = self._process.wait(LAST_S)
        except subprocess.TimeoutExpired:
            return NoAnswer("closed its standard output and goes on")
        if code < 0:
            return NoAnswer(f"was ended by signal {-code} ({signal.strsignal(-code)})")
        return NoAnswer(f"ended with exit code {code}")

    def close(self) -> None:
        """Let it end, and after ``END_S`` end it, with all of its process group."""
        for pipe in self._pipes:
            pipe.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        finally:
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def shown(line: bytes | bytearray) -> str:
    """The beginning of what was said, for people."""
    text = line[:200].decode(errors="backslashreplace")
    return repr(text) + (" ..." if len(line) > 200 else "")
