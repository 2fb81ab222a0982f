"""A ``pliant run`` in a process of its own, watched through its journal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pliant.apps.heat import solve_serial
from pliant.core import records as r
from pliant.daemon.detect import DetectedMpi, mpi_of
from pliant.launch import processes, shm
from pliant.model.flavours import LaunchWay, way_of

PLIANT = str(Path(sys.executable).with_name("pliant"))
PROGRAMS = Path(__file__).with_name("programs")
ROOT = Path(__file__).parents[2]
HEAT = "python -m pliant.apps.heat --rows 64 --cols 64"
PATIENCE_S = 40.0


class Failure(AssertionError):  # noqa: N818 - it is a test that fails
    """What was waited for did not come; the journal so far is in the message."""


def heat(name: str, nodes: str, steps: int = 150, work_s: float = 6.0, **keys: Any) -> str:
    """A [[jobs]] table for a paced and verified heat solver."""
    table = {
        "name": name,
        "command": f"{HEAT} --steps {steps} --pace",
        "verify": f"{HEAT} --steps {steps} --serial",
        "walltime": 60,
        **keys,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    lines += [f"nodes = {nodes}", f"model = {{ work_s = {work_s} }}"]
    return "\n[[jobs]]\n" + "\n".join(lines) + "\n"


def until_told(name: str, nodes: str, flag: Path, **keys: Any) -> str:
    """A heat solver that goes on until ``flag`` is there; ``is_right`` checks its result."""
    return job(name, f"python {PROGRAMS / 'until.py'} {flag}", nodes, **keys)


def is_right(result: str) -> bool:
    """Whether the result of a solver that goes on until it is told is that of a serial run, to the last bit."""
    steps, found = result.split()
    return solve_serial(64, 64, int(steps)) == found


def job(name: str, command: str, nodes: str = "1", **keys: Any) -> str:
    table = {"name": name, "command": command, "walltime": 60, **keys}
    return (
        "\n[[jobs]]\n"
        + "\n".join(f"{k} = {json.dumps(v)}" for k, v in table.items())
        + f"\nnodes = {nodes}\n"
    )


def parent(pid: int) -> int:
    """The process that it was started by; OSError if it is gone."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


MARK = "PLIANT_TEST_MARK"


def alive(mark: str, command: str = "") -> set[int]:
    """The processes with this mark in their environment whose command has these words, but for this one."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes():
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if command in words and int(path.name) != os.getpid():
                    found.add(int(path.name))
        except OSError:
            continue
    return found


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for it; Failure if it does not come in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise Failure(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.02)


def pliant(run: BatchRun, *words: str) -> str:
    """A command from another terminal: what it says."""
    said = subprocess.run(
        [PLIANT, *words], env=run.env, capture_output=True, text=True, timeout=60, check=False
    )
    return said.stdout + said.stderr


def own_library() -> DetectedMpi:
    """The MPI of this environment."""
    found = mpi_of((sys.executable,), os.environ, "")
    assert found is not None
    return found


def own_mpi() -> LaunchWay:
    """What that can do."""
    return way_of(own_library().mpi, os.environ)


class Page:
    """A page of docs/ whose blocks of code are run, so that it cannot say what is not so. The first line of a program,
    a batch or another file is a comment with its name; all else is commands."""

    def __init__(self, name: str) -> None:
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        blocks: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.programs = {
            text.split(maxsplit=2)[1].rstrip(":"): text
            for language, text in blocks
            if language in {"python", "toml", "text"}
        }
        commands = [text for language, text in blocks if language == "sh"]
        self.commands = [line for text in commands for line in text.splitlines()]
        assert commands
        assert len(blocks) == len(self.programs) + len(commands)

    @contextmanager
    def shell(self, folder: Path) -> Iterator[Callable[[str], list[str]]]:
        """Runs a line of sh in ``folder``, where the page's programs are: the lines that it prints, or that its jobs
        have logged, by their names."""
        for name, text in self.programs.items():
            (folder / name).write_text(text)
        with TemporaryDirectory(prefix="plt") as runtime:
            path = f"{Path(PLIANT).parent}:{os.environ['PATH']}"
            env = {**os.environ, "PATH": path, "XDG_RUNTIME_DIR": runtime}

            def run(line: str) -> list[str]:
                ran = subprocess.run(
                    ["sh", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
                )  # fmt: skip
                assert ran.returncode == 0, ran.stderr
                if not line.startswith("pliant run"):
                    return ran.stdout.splitlines()
                said: list[str] = []
                for log in sorted(folder.glob("pliant-runs/*.log")):
                    said += log.read_text().splitlines()
                    log.unlink()
                return said

            yield run


class BatchRun:
    """A running batch, or a ``command`` in its place, executed by the words of ``prefix``. ``runtime`` is an empty, short directory: it becomes XDG_RUNTIME_DIR."""

    def __init__(
        self,
        place: Path,
        runtime: Path,
        cluster: str,
        *jobs: str,
        options: tuple[str, ...] = (),
        command: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.place = place
        self.runtime = runtime / f"pliant-{os.getuid()}"
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        batch = place / "batch.toml"
        batch.write_text(f"[cluster]\n{cluster}\n" + "".join(jobs))
        self.out = place / "out"
        self._run = ""
        with (place / "stdout").open("w") as out, (place / "stderr").open("w") as err:
            self.process = subprocess.Popen(
                [*prefix, PLIANT, "run", "--output", str(self.out), "--json", *options, "--", *(command or [str(batch)])],
                env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    @property
    def run(self) -> str:
        """The run's id, once its directory is there; remembered."""
        if not self._run and self.runtime.exists():
            self._run = next((path.name for path in self.runtime.iterdir()), "")
        return self._run

    def records(self) -> list[r.AnyRecord]:
        try:
            lines = (self.out / "records.ndjson").read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [r.from_line(line) for line in lines[1:-1]]

    def wait_for(self, kind: type[r.Record], where: Callable[[Any], bool] = lambda _: True) -> Any:
        """The first record of this kind that fits; Failure if it does not come in time."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for record in self.records():
                if isinstance(record, kind) and where(record):
                    return record
            if self.process.poll() is not None and self.run:
                break
            time.sleep(0.02)
        raise Failure(f"no {kind.__name__}: {self.story()}")

    def wait_for_text(self, text: str) -> None:
        """Wait until the run has said so on standard error."""
        until(lambda: text in (self.place / "stderr").read_text(), f"{text!r} from the run")

    def story(self) -> str:
        text = "\n".join(repr(record)[:200] for record in self.records())
        return f"{text}\n{(self.place / 'stderr').read_text()}"

    def finish(self, code: int | None = 0) -> dict[str, Any]:
        """Wait for the end; the jobs of report.json by name."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.run and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            got = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"the run does not end: {self.story()}") from None
        if code is not None and got != code:
            raise Failure(f"exit code {got}, expected {code}: {self.story()}")
        report = json.loads((self.place / "stdout").read_text() or "{}")
        return {job["name"]: job for job in report["runs"][0]["jobs"]} if report else {}

    def queue(self) -> list[dict[str, Any]]:
        """All runs that go on, from another terminal."""
        words = [PLIANT, "queue", "--json"]
        said = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, check=True)
        found: list[dict[str, Any]] = json.loads(said.stdout)
        return found

    def order(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``pliant resize`` from another terminal."""
        return subprocess.run(
            [PLIANT, "resize", *words], env=self.env, capture_output=True, text=True, timeout=60, check=False
        )

    def ranks(self, name_or_number: int) -> dict[int, dict[str, str]]:
        """Pids of a job's processes, with their cookies."""
        return processes.find(self.run, job=name_or_number)

    def agents(self) -> dict[str, int]:
        """Pids of the agents by node; what an agent has forked looks like it until it executes its program."""
        found: dict[int, tuple[str, int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    forked_by = parent(int(entry.name))
                except OSError:
                    continue
                if "pliant.launch.agent" in words and self.run and self.run in words:
                    found[int(entry.name)] = (words[words.index("--node") + 1], forked_by)
        return {node: pid for pid, (node, forked_by) in found.items() if forked_by not in found}

    def leftovers(self, run: str) -> list[str]:
        """Processes, runtime files and shared memory of the run that are still there."""
        left = [f"process {pid}" for pid in processes.find(run)]
        left += [f"agent {node}" for node in self.agents()]
        left += [str(path) for path in shm.SHM.glob(f"pliant-{run}-*")]
        for number, world, part in product(range(1, 5), range(16), range(4)):
            segment = shm.GroupFiles("", number, world, world, part).segment(run)
            left += [str(segment)] if segment.exists() else []
        if self.runtime.exists():
            left += [str(path) for path in self.runtime.glob("*/*")]
        return left

    def end(self) -> None:
        """Whatever happened, leave nothing behind."""
        run = self.run
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        for pid in [*processes.find(run), *self.agents().values()] if run else []:
            processes.kill(pid)
