"""The agents' event loop, and connections on it, beside asyncio's loop, which has the same names."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.launch.connection import CLOSED, Connection, Listener
from pliant.launch.loop import EventLoop, Loop, Timer

PATIENCE_S = 20.0


def run_own(begin: Callable[[Loop, Callable[[], object]], object]) -> None:
    """``begin`` gets the loop, and what stops it."""
    loop = EventLoop()
    loop.call_later(PATIENCE_S, loop.stop)
    begin(loop, loop.stop)
    loop.run()


def run_asyncio(begin: Callable[[Loop, Callable[[], object]], object]) -> None:
    async def work() -> None:
        over = asyncio.Event()
        begin(asyncio.get_running_loop(), over.set)
        async with asyncio.timeout(PATIENCE_S):
            await over.wait()

    asyncio.run(work())


LOOPS = pytest.mark.parametrize("run", [run_own, run_asyncio])
Run = Callable[[Callable[[Loop, Callable[[], object]], object]], None]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=12))
def test_timers_come_in_order_unless_they_are_cancelled(asked: list[tuple[int, int, bool]]) -> None:
    """Each in so many milliseconds; some set another, some are cancelled."""
    came: list[int] = []

    def begin(loop: Loop, stop: Callable[[], object]) -> None:
        began = loop.time()
        timers: list[Timer] = [
            loop.call_at(began + ms * 1e-3, came.append, number) for number, (ms, _, _) in enumerate(asked)
        ]
        for timer, (_, _, cancelled) in zip(timers, asked, strict=True):
            if cancelled:
                timer.cancel()
        loop.call_at(began + 4e-3, loop.call_soon, stop)

    run_own(begin)
    left = [(ms, number) for number, (ms, _, cancelled) in enumerate(asked) if not cancelled]
    assert came == [number for _, number in sorted(left)]


def test_an_error_of_a_call_ends_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("of this call")

    def begin(loop: Loop, stop: Callable[[], object]) -> None:
        loop.call_soon(fail)
        loop.call_later(1e-3, stop)

    run_own(begin)
    assert "ValueError: of this call" in capfd.readouterr().err


def test_what_is_removed_is_not_called_any_more() -> None:
    """Of two descriptors that are ready at once each removes the other."""
    called: list[int] = []
    pipes = [os.pipe(), os.pipe()]

    def begin(loop: Loop, stop: Callable[[], object]) -> None:
        def ready(own: int) -> None:
            called.append(own)
            for reading, _ in pipes:
                loop.remove_reader(reading)
            loop.call_soon(stop)

        for number, (reading, writing) in enumerate(pipes):
            os.write(writing, b"x")
            loop.add_reader(reading, ready, number)

    run_own(begin)
    assert len(called) == 1
    for pipe in pipes:
        for each in pipe:
            os.close(each)


def test_signals_are_heard() -> None:
    heard: list[int] = []

    def begin(loop: Loop, stop: Callable[[], object]) -> None:
        loop.add_signal_handler(signal.SIGUSR1, heard.append, 1)
        loop.add_signal_handler(signal.SIGUSR2, stop)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            loop.call_soon(os.kill, os.getpid(), number)

    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    try:
        run_own(begin)
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == [1]


@LOOPS
@pytest.mark.parametrize("size", [1, 1 << 16, 1 << 23])
def test_all_that_was_written_comes_also_after_the_end(run: Run, size: int) -> None:
    """``close`` follows at once: what the system does not take yet is sent behind it."""
    ours, theirs = socket.socketpair()
    data, heard, ended = os.urandom(size), bytearray(), list[str]()

    def begin(loop: Loop, stop: Callable[[], object]) -> None:
        def over(why: str) -> None:
            ended.append(why)
            reader.close()
            stop()

        writer = Connection(loop, ours, heard.extend, ended.append)
        reader = Connection(loop, theirs, heard.extend, over)
        writer.write(data[: size // 2])
        writer.write(data[size // 2 :])
        writer.close()
        writer.write(b"too late")

    run(begin)
    assert bytes(heard) == data
    assert ended == [CLOSED], "this end's own end is no news"
    assert (ours.fileno(), theirs.fileno()) == (-1, -1)


@LOOPS
def test_writing_to_one_that_has_gone_harms_nobody(run: Run) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()

    def begin(loop: Loop, stop: Callable[[], object]) -> None:
        def over(_why: str) -> None:
            connection.write(b"into the void")
            connection.close()
            stop()

        connection = Connection(loop, ours, print, over)
        connection.write(b"x" * (1 << 20))

    run(begin)
    assert ours.fileno() == -1


@LOOPS
def test_a_listener_lets_in_all_that_call(run: Run) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    calls = [socket.create_connection(server.getsockname()) for _ in range(5)]
    came: list[Any] = []

    def begin(loop: Loop, stop: Callable[[], object]) -> None:
        def called(sock: socket.socket) -> None:
            came.append(sock.getpeername())
            sock.close()
            if len(came) == len(calls):
                listener.close()
                stop()

        listener = Listener(loop, server, called)

    run(begin)
    assert sorted(came) == sorted(call.getsockname() for call in calls)
    for call in calls:
        call.close()
