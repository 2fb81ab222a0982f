"""The warm process: a Python that has imported what programs of some kind need, and forks when one is to start.

It is a program of its own, which the node's agent starts (`launch/warming.py`) by the very command word, options,
environment and directory that the programs would be started with, so that what it is, and what it imports, is what
they would be and import. It has one thread and no children, opens no context or connection, and never runs a line of a
user's program. What it forks becomes the agent's child, not its own, and can be told from a program that was executed
by little: `sys.modules` has more in it, and `warnings.filters` what those modules added; siblings hash strings alike,
unless PYTHONHASHSEED says how; `inspect.stack()` ends with frames of this file; the garbage collector leaves alone what
was imported (`gc.get_freeze_count()`); and /proc/PID/cmdline and environ have zeros at their ends.

Nothing but the standard library is imported here: what is, is imported in every program.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.machinery
import io
import json
import os
import runpy
import signal
import socket
import sys
import time
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOM = 4096
"""Bytes of arguments, and of environment, that are kept free for what the forked programs have more than this one."""
LONGEST = 1 << 18
"""Of an order. A longer one does not go through the socket anyway."""
ADOPTION_S = 10.0
READY, GO = b"ready", b"go"
_PR_SET_PDEATHSIG = 1
_FIRST_AREA = 45
"""In /proc/self/stat, behind the name: where arguments and environment are in memory, two numbers each."""


class Order(NamedTuple):
    """What is to be started, by whom, and where its output goes; ``pmi``: it gets a connection."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    output: str
    agent: int
    pmi: bool


class CannotError(Exception):
    """It has to be executed."""


def serve(before: Collection[str]) -> None:
    """Import the modules that the arguments name, and fork on orders. Only what is forked returns: at the end of its
    program, so that the interpreter ends as it always does. ``before``: what any program finds imported."""
    orders = socket.socket(fileno=int(os.environ["PMI_FD"]))
    orders.set_inheritable(False)
    environ = dict(os.environ)
    for name in sys.argv[1:-1]:
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # then no program has it either
    if len(list(Path("/proc/self/task").iterdir())) > 1 or _has_children():
        os._exit(3)  # who is forked would miss them
    gc.collect()
    gc.freeze()  # else each program would copy and free, in the end, all that was imported
    orders.send(READY)
    order, answers, pmi = _forked(orders)
    try:
        imported = {name.partition(".")[0] for name in set(sys.modules).difference(before)}
        command = _become(order, pmi, imported, environ)
    except BaseException as error:  # noqa: BLE001 - whatever it is: the agent executes the program
        answers.send(f"{type(error).__name__}: {error}".encode(errors="replace")[:1000])
        os._exit(0)
    try:
        answers.send(b"%s %d" % (READY, os.getpid()))
        is_wanted = answers.recv(len(GO)) == GO
    except OSError:
        is_wanted = False
    if not is_wanted:
        os._exit(0)  # nobody waits for it any more
    answers.close()
    _run(command)


def _forked(orders: socket.socket) -> tuple[Order, socket.socket, int | None]:
    """Wait for orders and fork; only the forked process returns, with its order and what came with it."""
    while True:
        data, numbers, _, _ = socket.recv_fds(orders, LONGEST, 2)
        if not data:
            os._exit(0)  # the agent is gone
        child = os.fork()
        if not child:
            if os.fork():
                os._exit(0)  # so that the agent, which adopts orphans, becomes the parent of the other
            orders.close()
            order = Order(**json.loads(data))
            return order, socket.socket(fileno=numbers[0]), numbers[1] if order.pmi else None
        for number in numbers:
            os.close(number)
        os.waitpid(child, 0)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


# ---- to become a program ---------------------------------------------------------------------------------


def _become(
    order: Order, pmi: int | None, imported: Collection[str], environ: Mapping[str, str]
) -> Sequence[str]:
    """Become the process that executing the order would have made, up to the first line of its program. Returns the
    command without the interpreter and its options. An exception if that cannot be. What the ``imported`` modules have
    made of the environment that they found, ``environ``, they are not going to do again: it stays, as mpi4py's
    FI_PROVIDER_PATH for Intel MPI."""
    _await_adoption(order.agent)
    os.setsid()
    env = order.env
    if pmi is not None:
        os.set_inheritable(pmi, True)
        env = {**env, "PMI_FD": str(pmi)}
    out = os.open(order.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    if os.isatty(out):
        raise CannotError("its output is a terminal")
    if order.cwd:
        os.chdir(order.cwd)
    own = sys.orig_argv.index("-c")
    command = order.argv[own:]
    first = _first_path(command)
    if first is not None:
        if clash := _hidden(first or ".", imported):
            raise CannotError(f"{first!r} has a {clash} of its own")
        sys.path.insert(0, first)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(number, target)
    os.close(null)
    os.close(out)
    _renew_streams()
    remade = _remade(env, environ, dict(os.environ))
    os.environ.clear()  # before the memory that it may point to is written over
    os.environ.update(remade)
    _rewrite(order.argv, env)
    sys.orig_argv = list(order.argv)
    sys.argv = [command[0], *command[2:]] if command[0] in {"-c", "-m"} else list(command)
    _forget()
    return command


def _remade(env: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """The environment ``env``, with what has become of ``before`` as far as that is the same there."""
    changed = {
        name
        for name in {*before, *after}
        if before.get(name) != after.get(name) and before.get(name) == env.get(name)
    }
    kept = {name: value for name, value in env.items() if name not in changed}
    return {**kept, **{name: after[name] for name in changed if name in after}}


def _await_adoption(agent: int) -> None:
    """Wait until the agent is this process' parent, and die with it from then on."""
    deadline = time.monotonic() + ADOPTION_S
    while os.getppid() != agent:
        if time.monotonic() > deadline:
            raise CannotError("the agent has not adopted it")
        time.sleep(0.0002)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != agent:
        os._exit(1)


def _first_path(command: Sequence[str]) -> str | None:
    """What the interpreter would put at the head of `sys.path`, None for nothing; an exception if the program is none
    that can be run here."""
    if command[0] not in {"-c", "-m"}:
        script = Path(command[0])
        if script.suffix != ".py" or not script.is_file() or not os.access(script, os.R_OK):
            raise CannotError("the script is no Python file")
        place = str(script.resolve().parent)
    else:
        if command[0] == "-c" and sys.version_info >= (3, 13):
            raise CannotError("this interpreter treats code of the command line in a way of its own")
        place = "" if command[0] == "-c" else str(Path.cwd())
    return None if sys.flags.safe_path else place


def _hidden(place: str, imported: Collection[str]) -> str:
    """A module or package in ``place`` that a program would have imported instead of one of ``imported``, or ""."""
    suffixes = importlib.machinery.all_suffixes()
    for entry in Path(place).iterdir():
        stem, dot, _ = entry.name.partition(".")
        if stem in imported and (
            entry.name.removeprefix(stem) in suffixes if dot else (entry / "__init__.py").exists()
        ):
            return stem
    return ""


def _renew_streams() -> None:
    """Standard streams as the interpreter makes them, over the new files."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        is_raw = isinstance(old.buffer, io.FileIO)
        mode = "w" if number else "r"
        buffer: Any = open(number, mode + "b", 0 if is_raw else -1, closefd=False)  # noqa: SIM115
        raw = buffer if is_raw else buffer.raw
        raw.name = f"<{name}>"
        stream: Any = io.TextIOWrapper(
            buffer, old.encoding, old.errors, "\n" if number else None,
            line_buffering=old.line_buffering, write_through=old.write_through,
        )  # fmt: skip
        stream.mode = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _rewrite(argv: Iterable[str], env: dict[str, str]) -> None:
    """Write arguments and environment where the kernel reads those of a process, for /proc/PID/environ: there the proof
    that a node is clean looks for what belongs to a job, which has to be as sure as if this had been executed. An
    exception if they are not to be seen there."""
    numbers = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    areas = [int(number) for number in numbers[_FIRST_AREA : _FIRST_AREA + 4]]
    blocks = [
        b"".join(os.fsencode(text) + b"\0" for text in texts)
        for texts in (argv, (f"{name}={value}" for name, value in env.items()))
    ]
    for name, block, begin, end in zip(("cmdline", "environ"), blocks, areas[::2], areas[1::2], strict=True):
        if not 0 < begin <= begin + len(block) <= end:
            raise CannotError(f"there is no room for its {name}")
        ctypes.memmove(begin, block.ljust(end - begin, b"\0"), end - begin)
        if Path(f"/proc/self/{name}").read_bytes().rstrip(b"\0") != block.rstrip(b"\0"):
            raise CannotError(f"its {name} cannot be changed")


def _forget() -> None:
    """Have nothing of the warm process that its other children have too, and that is to differ from process to process.
    `random` sees to itself, and so do `uuid`, `secrets`, `tempfile`, `ssl` and Numba."""
    importlib.invalidate_caches()
    modules: dict[str, Any] = dict(sys.modules)
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "logging" in modules:
        modules["logging"]._startTime = time.time()  # noqa: SLF001
    if "threading" in modules:
        modules["threading"].main_thread()._set_native_id()  # noqa: SLF001


# ---- to run it -------------------------------------------------------------------------------------------


def _run(command: Sequence[str]) -> None:
    """Run the program as `__main__`."""
    how, main = command[0], _new_main()
    try:
        if how == "-m":
            runpy._run_module_as_main(command[1])  # type: ignore[attr-defined]  # noqa: SLF001 - as the interpreter
        elif how == "-c":
            exec(compile(command[1], "<string>", "exec", dont_inherit=True), main.__dict__)  # noqa: S102
        else:
            path = how if how.startswith("/") else f"{Path.cwd()}/{how}"
            main.__file__, main.__cached__ = path, None  # type: ignore[attr-defined]
            main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
            exec(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        _show_without_us(trace and trace.tb_next)
        raise


def _new_main() -> types.ModuleType:
    """A main module as the interpreter makes it. Its own was there when all was frozen: what is in that is never
    collected, and so its finalizers would not run."""
    main = types.ModuleType("__main__")
    vars(main).clear()
    vars(main).update(vars(sys.modules["__main__"]), __annotations__={})
    sys.modules["__main__"] = main
    return main


def _show_without_us(trace: types.TracebackType | None) -> None:
    """Have the interpreter, which is about to be given the program's exception, show it as if it came from there."""
    hook = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, _: types.TracebackType | None) -> None:
        sys.excepthook = hook
        sys.last_traceback = trace
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = show
