"""A program that a warm process has forked is held against the same program, executed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pliant.launch import processes, warming
from pliant.launch.starter import ExecStarter, Starter, Streams
from pliant.launch.warming import NotWarm, WarmProcess
from pliant.live.node.messages import StartHelper
from pliant.model.kinds import KINDS, JobKind

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
MODULES = ("numpy", "logging", "multiprocessing", "a_module_that_is_not_there", "tempfile", "uuid")
PATIENCE_S = 60.0
ENV = {
    **{key: value for key, value in os.environ.items() if not key.startswith("PLIANT_")},
    "PLIANT_RUN": f"warm{os.getpid()}", "PLIANT_NODE": "n0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    "GREETING": "gr\udcfc\udcdfe",
}  # fmt: skip
JOB = {"PLIANT_JOB": "3", "PLIANT_GROUP": "1", "PLIANT_TOKEN_FILE": "/nowhere"}
Start = Callable[..., WarmProcess]
Outcome = tuple[int, str]


@pytest.fixture(scope="module", autouse=True)
def _subreaper() -> Iterator[None]:
    """This process stands for an agent."""
    processes.adopt_orphans()
    yield
    processes.adopt_orphans(on=False)


def start_warm(
    modules: tuple[str, ...] = MODULES, options: tuple[str, ...] = (), cwd: Path = HERE, **env: str
) -> WarmProcess:
    order = StartHelper("warm", (sys.executable, *options), modules, {}, {}, (), str(cwd))
    return WarmProcess(ExecStarter(), order, {**ENV, "PLIANT_HELPER": "warm", **env})


def first_word(warm: WarmProcess) -> bytes:
    """What it says first; nothing if it ends."""
    assert select.select([warm.orders], [], [], PATIENCE_S)[0]
    return warm.orders.recv(100)


def end(warm: WarmProcess) -> int:
    processes.kill(warm.pid)
    warm.close()
    return os.waitstatus_to_exitcode(os.waitpid(warm.pid, 0)[1])


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmProcess]:
    process = start_warm()
    assert first_word(process) == b"ready"
    yield process
    end(process)


def outcome(
    starter: Starter, out: Path, *words: str, cwd: Path = HERE, options: tuple[str, ...] = ()
) -> Outcome:
    """How a program ends, and all that it has written."""
    out.unlink(missing_ok=True)
    argv = [sys.executable, *options, *words]
    pid = starter.start(argv, {**ENV, **JOB}, str(cwd), Streams(str(out)), None)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, re.sub(" at 0x[0-9a-f]+", "", out.read_text(errors="surrogateescape"))


def same_outcome(warm: WarmProcess, out: Path, *words: str, options: tuple[str, ...] = ()) -> Outcome:
    """The same of a program executed and forked, or the test fails."""
    cold = outcome(ExecStarter(), out, *words, options=options)
    assert outcome(warm, out, *words, options=options) == cold
    return cold


def same_probes(
    warm: WarmProcess, out: Path, *words: str, options: tuple[str, ...] = ()
) -> dict[str, object]:
    """What the probe tells item by item, but for what it may tell differently."""
    found = []
    for starter in (ExecStarter(), warm):
        code, text = outcome(starter, out, *words, options=options)
        assert code == 0, text
        *lines, last = text.splitlines()
        assert last == "atexit of the program"
        found.append(dict(json.loads(line) for line in lines))
    cold, hot = found
    assert list(cold) == list(hot)
    assert not {key: (cold[key], hot[key]) for key in cold if cold[key] != hot[key]}
    return hot


def test_a_script_a_module_and_code_find_the_same_as_if_they_were_executed(
    warm: WarmProcess, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    link = tmp_path / "linked.py"
    link.symlink_to(HERE / "warm_probe.py")
    words = ("--an", "option", "-c", "", "gr\xfc\xdfe")
    told = same_probes(warm, out, str(HERE / "warm_probe.py"), *words)
    assert told["argv"] == [str(HERE / "warm_probe.py"), *words]
    files = told["files"]
    assert isinstance(files, dict)
    assert [files[number] for number in "012"] == ["/dev/null", str(out), str(out)]
    environ = told["environ"]
    assert isinstance(environ, dict)
    assert environ["PLIANT_GROUP"] == "1"
    assert not {"PLIANT_HELPER", "PLIANT_ROOM", "PMI_FD"} & set(environ)
    same_probes(warm, out, "warm_probe.py")
    same_probes(warm, out, "../pure/./warm_probe.py", "x")
    same_probes(warm, out, "./warm_probe.py")
    same_probes(warm, out, str(link))
    same_probes(warm, out, "-m", "warm_probe", *words)
    same_probes(warm, out, "-c", (HERE / "warm_probe.py").read_text(), *words)


@pytest.mark.parametrize("options", [("-u", "-O"), ("-P", "-E"), ("-I", "-B")])
def test_the_interpreters_options_are_those_of_the_program(options: tuple[str, ...], tmp_path: Path) -> None:
    warm = start_warm(("logging",), options)
    try:
        assert first_word(warm) == b"ready"
        same_probes(warm, tmp_path / "out", str(HERE / "warm_probe.py"), "x", options=options)
    finally:
        end(warm)


@pytest.mark.parametrize(
    ("code", "exits"),
    [
        ("import sys; print('out'); sys.exit(3)", 3),
        ("import sys; sys.exit('a text')", 1),
        ("raise SystemExit", 0),
        ("def f():\n  1 / 0\nf()", 1),
        ("try:\n  1 / 0\nexcept Exception as e:\n  raise KeyError('k') from e", 1),
        ("try:\n  1 / 0\nexcept Exception:\n  raise KeyError('k')", 1),
        ("raise ExceptionGroup('two', [ValueError(1), OSError(2)])", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("x = (", 1),
        ("x = 1 is 1", 0),
        ("import os; print('lost'); os._exit(7)", 7),
        # As the warm process has it, whose end of logging writes out what is left for stderr.
            ("import logging, sys; sys.stderr.write('a'); sys.stdout.write('b'); sys.stderr.write('c')", 0),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT); input()", -signal.SIGINT),
        ("import os; os.abort()", -signal.SIGABRT),
        ("input()", 1),
        ("import sys; sys.excepthook = lambda *a: print(a[0], a[2].tb_next); 1 / 0", 1),
        ("import sys, atexit; atexit.register(lambda: print(sys.last_value, sys.last_traceback.tb_next)); 1/0", 1),
        ("import atexit; atexit.register(print, 1); atexit.register(print, 2); atexit.register(lambda: 1/0)", 0),
        ("import threading; t = threading.Thread(target=lambda: (input(), 1)); t.start(); t.join(); print('main')", 0),
        ("import warnings; warnings.warn('beware', stacklevel=1)", 0),
        ("import logging; logging.warning('x'); logging.getLogger().info('y')", 0),
        ("import multiprocessing as m\np = m.get_context('fork').Process(target=print, args=(1,)); p.start(); p.join()", 0),
        ("class A:\n  def __del__(self): print('gone')\na = A()", 0),
        ("from __future__ import annotations\ndef f(x: y): pass\nprint(f.__annotations__)", 0),
        ("def f(x: print('evaluated')): pass", 0),
    ],
)  # fmt: skip
def test_a_program_ends_as_if_it_was_executed(
    warm: WarmProcess, tmp_path: Path, code: str, exits: int
) -> None:
    out, script = tmp_path / "out", tmp_path / "program.py"
    assert same_outcome(warm, out, "-c", code)[0] == exits
    script.write_text(f"# -*- coding: latin-1 -*-\n{code}\n")
    assert same_outcome(warm, out, str(script), "an argument")[0] == exits


def test_what_a_module_does_wrong_is_told_as_if_it_was_executed(warm: WarmProcess, tmp_path: Path) -> None:
    assert same_outcome(warm, tmp_path / "out", "-m", "there_is_none")[0] == 1
    assert same_outcome(warm, tmp_path / "out", "-m", "json.decoder.none")[0] == 1
    assert same_outcome(warm, tmp_path / "out", "-m", "this")[0] == 0
    assert same_outcome(warm, tmp_path / "out", "-m", "timeit", "-n")[0] == 2
    assert same_outcome(warm, tmp_path / "out", "-m", "json.tool", "/dev/null")[0] == 1


def test_what_a_module_makes_of_the_environment_is_there(tmp_path: Path) -> None:
    (tmp_path / "sets.py").write_text(
        "import os; os.environ['SET_HERE'] = '1'; os.environ['GREETING'] += ' and more'; del os.environ['HOME']"
    )
    code = "import sets, os; print(*map(os.environ.get, ('SET_HERE', 'GREETING', 'PLIANT_JOB', 'HOME')))"
    env = {**ENV, "PYTHONPATH": str(tmp_path)}
    warm = start_warm(("sets",), PYTHONPATH=str(tmp_path))
    assert first_word(warm) == b"ready"
    found = []
    for starter in (ExecStarter(), warm):
        out = tmp_path / "out"
        out.unlink(missing_ok=True)
        pid = starter.start([sys.executable, "-c", code], {**env, **JOB}, "/", Streams(str(out)), None)
        assert not os.waitpid(pid, 0)[1]
        found.append(out.read_text(errors="surrogateescape"))
    end(warm)
    assert found == ["1 gr\udcfc\udcdfe and more 3 None\n"] * 2


def test_siblings_draw_different_numbers(warm: WarmProcess, tmp_path: Path) -> None:
    code = (
        "import random, uuid, tempfile, secrets, os, numpy, multiprocessing as m\n"
        "print(random.random(), numpy.random.rand(), numpy.random.default_rng().random(), uuid.uuid4(), secrets.token_hex(),"
        " next(tempfile._get_candidate_names()), m.current_process().authkey.hex())"
    )
    drawn = [outcome(warm, tmp_path / "out", "-c", code)[1].split() for _ in range(3)]
    assert all(len(each) == 3 for each in map(set, zip(*drawn, strict=True)))


def test_what_is_forked_has_used_nothing_yet_and_gets_its_connection(
    warm: WarmProcess, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair()
    code = (
        "import os, socket\n"
        "s = socket.socket(fileno=int(os.environ['PMI_FD'])); s.send(s.recv(9)); print(sorted(os.listdir('/proc/self/fd')))"
    )
    with ours, theirs:
        argv = [sys.executable, "-c", code]
        pid = warm.start(argv, {**ENV, **JOB}, "/", Streams(str(tmp_path / "out")), theirs)
        assert pid in processes.children()
        theirs.close()
        ours.settimeout(PATIENCE_S)
        ours.send(b"hello")
        assert ours.recv(9) == b"hello"
        assert ours.recv(9) == b""
        _, status, used = os.wait4(pid, 0)
    assert status == 0
    warm_used = sum(map(int, Path(f"/proc/{warm.pid}/stat").read_text().split()[13:15])) / os.sysconf(
        "SC_CLK_TCK"
    )
    assert 0 < used.ru_utime + used.ru_stime < warm_used
    assert not processes.children(warm.pid)


@pytest.mark.parametrize("name", ["numpy.py", "json/__init__.py", "socket.py"])
def test_a_program_beside_a_module_of_a_name_that_is_imported_already_is_not_forked(
    warm: WarmProcess, tmp_path: Path, name: str
) -> None:
    """It would have imported its own."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    script = tmp_path / "program.py"
    script.touch()
    with pytest.raises(NotWarm, match=name.partition(".")[0].partition("/")[0]) as caught:
        outcome(warm, tmp_path / "out", str(script))
    assert not caught.value.broken
    for words in (("-c", "1"), ("-m", "this")):
        with pytest.raises(NotWarm):
            outcome(warm, tmp_path / "out", *words, cwd=tmp_path)
    (tmp_path / name).rename(tmp_path / "of_its_own.txt")
    assert outcome(warm, tmp_path / "out", str(script)) == (0, "")


def test_what_cannot_be_forked_is_refused_and_leaves_nothing_behind(
    warm: WarmProcess, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    before = processes.children()
    for words in (("none.py",), (str(tmp_path),), ("/bin/true",)):
        with pytest.raises(NotWarm):
            outcome(warm, out, *words)
    with pytest.raises(NotWarm, match="No such file"):
        outcome(warm, out, "-c", "1", cwd=tmp_path / "none")
    with pytest.raises(NotWarm, match="No such file"):
        outcome(warm, tmp_path / "none" / "out", "-c", "1")
    with pytest.raises(NotWarm, match="no room for its environ"):
        warm.start([sys.executable, "-c", "1"], {**ENV, "LONG": "x" * 9000}, "/", Streams(str(out)), None)
    with pytest.raises(NotWarm, match="no room for its cmdline"):
        warm.start([sys.executable, "-c", "1" * 9000], ENV, "/", Streams(str(out)), None)
    with pytest.raises(NotWarm, match="too long"):
        warm.start([sys.executable, "-c", "1" * 300_000], ENV, "/", Streams(str(out)), None)
    ours, theirs = pty.openpty()
    with pytest.raises(NotWarm, match="terminal"):
        warm.start([sys.executable, "-c", "1"], ENV, "/", Streams(os.ttyname(theirs)), None)
    os.close(ours)
    os.close(theirs)
    assert same_outcome(warm, out, "-c", "print(1)") == (0, "1\n")
    _await_only(before)


def _await_only(pids: set[int]) -> None:
    """Wait until this process has no other children, and reap them."""
    deadline = time.monotonic() + PATIENCE_S
    while processes.children() - pids:
        assert time.monotonic() < deadline
        processes.reap(pids)
        time.sleep(0.01)


def test_who_hangs_or_dies_starts_nothing_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "WARM_ANSWER_S", 0.2)
    others = processes.children()
    warm = start_warm(("logging",))
    assert first_word(warm) == b"ready"
    os.kill(warm.pid, signal.SIGSTOP)
    argv = [sys.executable, "-c", "print('it runs')"]
    with pytest.raises(NotWarm, match="answer") as caught:
        warm.start(argv, ENV, "/", Streams(str(tmp_path / "out")), None)
    assert caught.value.broken
    os.kill(warm.pid, signal.SIGCONT)  # now it takes the order: nobody waits for it any more
    monkeypatch.setattr(warming, "WARM_ANSWER_S", PATIENCE_S)
    pid = warm.start(argv, ENV, "/", Streams(str(tmp_path / "second")), None)
    assert os.waitpid(pid, 0)[1] == 0
    assert end(warm) == -signal.SIGKILL
    with pytest.raises(NotWarm) as caught:
        warm.start(argv, ENV, "/", Streams(str(tmp_path / "out")), None)
    assert caught.value.broken
    _await_only(others)
    assert not (tmp_path / "out").exists() or not (tmp_path / "out").read_text()
    assert (tmp_path / "second").read_text() == "it runs\n"


@pytest.mark.parametrize(
    "text",
    [
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import subprocess; child = subprocess.Popen(['sleep', '600'])",
        "1 / 0",
    ],
)
def test_a_module_that_leaves_threads_or_children_or_fails_makes_no_warm_process(
    tmp_path: Path, text: str
) -> None:
    others = processes.children()
    (tmp_path / "odd.py").write_text(text)
    warm = start_warm(("odd",), PYTHONPATH=str(tmp_path))
    assert first_word(warm) == b""
    assert end(warm) != 0
    for pid in processes.children() - others:  # the sleep, adopted
        processes.kill(pid)
    _await_only(others)


def test_what_a_forked_program_leaves_behind_is_found_by_its_cookie(
    warm: WarmProcess, tmp_path: Path
) -> None:
    """Also a daemon that was never executed, whose parents are dead; and the warm process is no part of any job."""
    before = processes.children()
    code = (
        "import os, time\n"
        "for _ in range(2):\n  if os.fork(): os._exit(0)\n  os.setsid()\n"
        "os.environ.clear(); print('away', flush=True); time.sleep(600)"
    )
    run, out = ENV["PLIANT_RUN"], tmp_path / "out"
    assert outcome(warm, out, "-c", code)[0] == 0
    _await(lambda: "away" in out.read_text())
    [(pid, cookie)] = processes.find(run, node="n0", job=3).items()
    assert cookie == {"PLIANT_RUN": run, "PLIANT_NODE": "n0", **JOB}
    assert warm.pid in processes.find(run)
    assert processes.scan(run, "n0", 3, [], [warm.pid, *(before - {warm.pid})]) == [pid]
    assert processes.scan(run, "n0", 3, [(3, 1)], [warm.pid, *(before - {warm.pid})]) == []
    assert warm.pid in processes.scan(run, "n0", None, [], [])
    processes.kill(pid)
    _await_only(before)


def _await(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def of_mpi() -> Iterator[WarmProcess]:
    process = start_warm(KINDS[JobKind.MPI].modules)
    assert first_word(process) == b"ready"
    yield process
    end(process)


@pytest.mark.parametrize(
    "options",
    ["", "rc.threads = False", "rc.thread_level = 'funneled'", "rc.errors = 'fatal'", "rc.finalize = False", "rc.initialize = False"],
)  # fmt: skip
def test_mpi_is_started_by_the_program_as_it_says(of_mpi: WarmProcess, tmp_path: Path, options: str) -> None:
    """Only its libraries are there before: what mpi4py's import does, and its end, is the program's."""
    code = (
        "import sys, mpi4py\nfrom mpi4py import rc\n"
        "print([name for name in sys.modules if name.startswith('pliant.mpi')], 'mpi4py.MPI' in sys.modules)\n"
        f"{options}\n"
        "from mpi4py import MPI\n"
        "if MPI.Is_initialized():\n"
        "  MPI.COMM_WORLD.Get_errhandler() == MPI.ERRORS_ARE_FATAL and print('fatal')\n"
        "  print(MPI.Query_thread(), MPI.COMM_WORLD.allreduce(7))\n"
        "import numpy, pliant.mpi\n"
        "print(numpy.arange(3) * 2, pliant.mpi.Block, rc.finalize)"
    )
    exits, text = same_outcome(of_mpi, tmp_path / "out", "-c", code)
    assert (exits, text.splitlines()[0]) == (0, "[] False")
