"""Controllers and their sockets: where they are, which are dead, and that no request harms one."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from commands import command

from pliant.daemon import control
from pliant.daemon.control import ControlAnswer, ControlRequest
from pliant.daemon.listening import listen
from pliant.launch import CONTROL
from pliant.model.errors import PliantError


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory for controllers."""
    with tempfile.TemporaryDirectory(prefix="plt", dir="/tmp") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield control.base()


def run_of(base: Path, name: str, *, age_s: float = 3600.0) -> Path:
    """A run's directory, with something of its own in it, last changed so long ago."""
    place = base / name
    place.mkdir(mode=0o700)
    (place / "n0.1.0.token").touch()
    then = time.time() - age_s
    os.utime(place, (then, then))
    return place


def test_only_a_controller_that_is_proved_dead_is_swept(base: Path) -> None:
    """Alive: one that takes requests, one whose queue is full, one that has just begun. Dead: nobody listens."""
    places = {name: run_of(base, name) for name in ("alive", "busy", "refused", "gone")}
    young = run_of(base, "young", age_s=0.0)
    (base / "a file").touch()
    with ExitStack() as stack:
        for name in ("alive", "busy", "refused"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(places[name] / CONTROL))
            if name != "refused":
                listener.listen(0 if name == "busy" else 5)
        waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
        waiting.connect(str(places["busy"] / CONTROL))
        for name in ("alive", "busy", "refused"):
            os.utime(places[name], (0, 0))
        found = control.survey()
    assert found.answering == ["alive"]
    assert found.silent == {"busy": "it is busy"}
    assert [name for name, place in places.items() if place.exists()] == ["alive", "busy"]
    assert young.exists()
    assert list(places["busy"].glob("*.token"))


def test_a_busy_controller_is_a_run_and_gets_the_order_when_it_has_time(base: Path) -> None:
    place = run_of(base, "busy")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(place / CONTROL))
        listener.listen(0)
        first.connect(str(place / CONTROL))
        with pytest.raises(PliantError, match=r"no run 'other'; going on: busy \(no answer: it is busy\)"):
            command("queue", "--run", "other")
        got: list[bytes] = []

        def wake_up() -> None:
            listener.accept()[0].close()
            while not got:
                connection, _ = listener.accept()
                with connection:
                    # Nothing comes from who only looks whether somebody is there.
                    if line := connection.makefile("rb").readline():
                        got.append(line)
                        connection.sendall(b'{"text":"done"}\n')

        controller = threading.Timer(0.2, wake_up)
        controller.start()
        assert command("resize", "ocean", "2") == "run busy: done\n"
        controller.join()
    assert json.loads(got[0]) == {"verb": "resize", "job": "ocean", "size": 2}


def listening(base: Path, ask: Callable[[Path], None]) -> list[ControlRequest]:
    """Have ``ask`` talk to a controller's socket from another thread; the requests that were answered."""
    place = run_of(base, "run")
    taken: list[ControlRequest] = []

    def answer(request: ControlRequest) -> ControlAnswer:
        taken.append(request)
        return ControlAnswer(text="heard")

    async def serve() -> None:
        server = await listen(place, answer)
        await asyncio.to_thread(ask, place / CONTROL)
        # Whoever connected before has been accepted when the last is answered; then all are let finish.
        await asyncio.to_thread(exchange, place / CONTROL, b'{"verb":"the last"}\n')
        server.close()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            _, left = await asyncio.wait(others, timeout=20.0)
            assert not left

    asyncio.run(serve())
    assert taken.pop() == ControlRequest("the last")
    return taken


def exchange(path: Path, data: bytes) -> ControlAnswer | None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10.0)
        connection.connect(str(path))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        line = connection.makefile("rb").readline()
    return ControlAnswer(**json.loads(line)) if line else None


def test_no_request_keeps_a_controller_from_answering_the_next(base: Path) -> None:
    def ask(path: Path) -> None:
        for data, said in (
            (b"x" * 3_000_000, "one line of at most 65,536 bytes"),
            (b"x" * 3_000_000 + b"\n", "one line of at most 65,536 bytes"),
            (b"{\n", "truncated"),
            (b'{"verb":"\xff"}\n', "utf-8"),
            (b'{"verb":7}\n', "Expected `str`"),
            (b"", "truncated"),
        ):
            answered = exchange(path, data)
            assert answered is not None
            assert said in answered.error
        with socket.socket(socket.AF_UNIX) as rude:
            rude.connect(str(path))
            rude.sendall(b"x" * 10)
        assert exchange(path, b'{"verb":"queue"}\n') == ControlAnswer(text="heard")

    assert listening(base, ask) == [ControlRequest("queue")]


def test_a_request_that_no_controller_would_take_is_not_sent(base: Path) -> None:
    def ask(path: Path) -> None:
        with pytest.raises(PliantError, match="the most is 65,536"):
            command("resize", "a", "1", "--leave", "n" * 70_000)
        with pytest.raises(PliantError, match=r"'caf\\udce9' is no text in UTF-8"):
            command("resize", "caf\udce9", "1")

    assert listening(base, ask) == []


def where(**env: str) -> str:
    """What a fresh process takes for the directory of controllers."""
    done = subprocess.run(
        [sys.executable, "-c", "from pliant.daemon import control; print(control.base())"],
        env={key: value for key, value in os.environ.items() if key not in ("XDG_RUNTIME_DIR", "TMPDIR")} | env,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_the_directory_of_controllers_is_one_that_is_there_and_short() -> None:
    name = f"pliant-{os.getuid()}"
    with tempfile.TemporaryDirectory(prefix="plt", dir="/tmp") as short:
        long = Path(short) / ("x" * 200)
        long.mkdir()
        missing = Path(short) / "no" / "such"
        assert where(XDG_RUNTIME_DIR=short) == f"{short}/{name}"
        assert where(TMPDIR=short) == f"{short}/{name}"
        assert where(XDG_RUNTIME_DIR=str(missing), TMPDIR=short) == f"{short}/{name}"
        assert where(XDG_RUNTIME_DIR=str(long), TMPDIR=short) == f"{short}/{name}"
        assert where(TMPDIR=str(long)) == f"/tmp/{name}"
        assert where(XDG_RUNTIME_DIR=str(long), TMPDIR=str(long)) == f"/tmp/{name}"
        assert where(XDG_RUNTIME_DIR="relative", TMPDIR=short) == f"{short}/{name}"
        assert not missing.parent.exists()
        assert not list(long.iterdir())


def test_a_directory_that_others_could_enter_is_not_used(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.chmod(0o755)
    with pytest.raises(PliantError, match="is open to others"):
        command("queue")
    base.rmdir()
    base.symlink_to(base.parent)
    with pytest.raises(PliantError, match="belongs to another user or is open to others"):
        command("queue")
