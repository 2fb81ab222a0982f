"""``pliant queue``: all runs of this user, over the real wire; the runs themselves are stand-ins."""

from __future__ import annotations

import contextlib
import json
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from commands import command

from pliant.daemon import control
from pliant.launch import CONTROL
from pliant.model.errors import PliantError


def job(number: int, name: str, kind: str = "mpi") -> dict[str, object]:
    where = {"nodes": 1, "nodelist": "n0", "sizes": "1:2"}
    return {"job": number, "name": name, "kind": kind, "state": "RUNNING", **where}


@pytest.fixture
def going_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Let a run go on that has these jobs; None: one that hangs up on whoever asks."""
    runtime = Path(tempfile.mkdtemp(prefix="plt"))  # short: a Unix socket's path has at most 107 characters
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with contextlib.ExitStack() as ends:
        ends.callback(shutil.rmtree, runtime)

        def begin(run: str, jobs: list[dict[str, object]] | None) -> None:
            class Answering(socketserver.StreamRequestHandler):
                def handle(self) -> None:
                    if jobs is not None and self.rfile.readline():
                        self.wfile.write(msgspec.json.encode(control.ControlAnswer(jobs=jobs)) + b"\n")

            place = control.base() / run
            place.mkdir(mode=0o700)
            server = ends.enter_context(socketserver.UnixStreamServer(str(place / CONTROL), Answering))
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            ends.callback(server.shutdown)

        yield begin


def test_all_runs_are_listed_and_one_that_does_not_answer_fails_no_other(
    going_on: Callable[..., None],
) -> None:
    going_on("aaaaaaaa", [job(1, "ocean"), job(2, "ice")])
    going_on("bbbbbbbb", None)
    going_on("cccccccc", [])
    going_on("dddddddd", [job(1, "ocean")])
    rows = command("queue").splitlines()
    found = {
        run: [row for row in rows if run in row] for run in ("aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd")
    }
    assert [len(each) for each in found.values()] == [2, 1, 1, 1]
    assert "ice" in found["aaaaaaaa"][1]
    assert "does not answer" in found["bbbbbbbb"][0]
    assert "no jobs" in found["cccccccc"][0]
    assert "ocean" in found["dddddddd"][0]


def test_the_json_names_the_runs(going_on: Callable[..., None]) -> None:
    going_on("aaaaaaaa", [job(1, "ocean")])
    going_on("bbbbbbbb", None)
    one, other = json.loads(command("queue", "--json"))
    assert one == {"run": "aaaaaaaa", "jobs": [job(1, "ocean")]}
    assert (other["run"], other["jobs"]) == ("bbbbbbbb", [])
    assert other["error"].startswith("run bbbbbbbb does not answer")


def test_a_kind_is_shown_where_one_is_not_mpi(going_on: Callable[..., None]) -> None:
    going_on("aaaaaaaa", [job(1, "ocean")])
    assert "KIND" not in command("queue")
    going_on("dddddddd", [job(1, "ice"), job(2, "sweep", "tasks")])
    assert ["KIND" in command("queue", *which) for which in ((), ("--run", "aaaaaaaa"))] == [True, False]
    [row] = [row for row in command("queue").splitlines() if "sweep" in row]
    assert "tasks" in row


def test_labels_are_shown_where_there_are_some_and_sources_where_not_all_are_virtual(
    going_on: Callable[..., None],
) -> None:
    going_on("aaaaaaaa", [{**job(1, "ocean"), "source": "virtual"}])
    shown = command("queue")
    assert "LABELS" not in shown
    assert "SOURCE" not in shown
    going_on("bbbbbbbb", [{**job(1, "ice"), "source": "ssh", "labels": {"gpu": "n0"}}])
    [row] = [row for row in command("queue").splitlines() if "ice" in row]
    assert "gpu=n0" in row
    assert "ssh" in row


def test_one_run_is_chosen_by_its_id(going_on: Callable[..., None]) -> None:
    going_on("aaaaaaaa", [job(1, "ocean")])
    going_on("dddddddd", [job(1, "ice")])
    assert [each["run"] for each in json.loads(command("queue", "--run", "dddddddd", "--json"))] == [
        "dddddddd"
    ]
    with pytest.raises(PliantError, match="there is no run 'x'; going on: aaaaaaaa, dddddddd"):
        command("queue", "--run", "x")


@pytest.mark.usefixtures("going_on")
def test_no_run_is_an_empty_queue_and_an_order_without_one_is_an_error() -> None:
    assert command("queue").startswith("No jobs: no run goes on")
    assert json.loads(command("queue", "--json")) == []
    with pytest.raises(PliantError, match="no run goes on"):
        command("queue", "--run", "x")
    for order in (
        ["resize", "ocean", "2"],
        ["migrate", "ocean"],
        ["nodes", "add", "1"],
        ["nodes", "remove", "n1"],
    ):
        with pytest.raises(PliantError, match="no run goes on"):
            command(*order)


def test_where_no_run_answers_the_command_fails(going_on: Callable[..., None]) -> None:
    going_on("bbbbbbbb", None)
    with pytest.raises(PliantError, match="run bbbbbbbb does not answer"):
        command("queue")


def test_ranks_that_sleep_are_shown_where_there_are_some(going_on: Callable[..., None]) -> None:
    going_on("aaaaaaaa", [job(1, "ocean"), {**job(2, "ice"), "awake": {"n3": 1, "n4": 2}}])
    rows = command("queue").splitlines()
    assert any("AWAKE" in row for row in rows)
    assert any("ice" in row and "n3=1,n4=2" in row for row in rows)
    [found] = json.loads(command("queue", "--json"))
    assert [each.get("awake") for each in found["jobs"]] == [None, {"n3": 1, "n4": 2}]


def test_nothing_is_said_of_sleep_where_all_are_awake(going_on: Callable[..., None]) -> None:
    going_on("aaaaaaaa", [job(1, "ocean")])
    assert "AWAKE" not in command("queue")
