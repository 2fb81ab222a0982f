"""What a program sees of itself, as lines: the same, however it was started."""

import atexit
import gc
import json
import locale
import multiprocessing.context
import os
import resource
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any


def stream(file: Any) -> object:
    return [
        file.name, file.mode, file.encoding, file.errors, file.newlines, file.line_buffering, file.write_through,
        file.isatty(), file.seekable(), file.fileno(), repr(file.buffer), file.closed,
    ]  # fmt: skip


def process_report() -> dict[str, object]:
    main = sys.modules["__main__"]
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "executable": [sys.executable, sys.prefix, sys.base_prefix],
        "flags": [str(sys.flags), sys.warnoptions, sorted(sys._xoptions)],
        "main": {key: repr(value).split(" at 0x")[0] for key, value in vars(main).items() if key[:2] == "__"},
        "main names": sorted(vars(main)),
        "main is": [__name__, __name__ == "__main__" and globals() is vars(main)],
        "environ": dict(os.environ),
        "environ bytes": sorted(key.decode() for key in os.environb),
        "proc environ": sorted(
            filter(None, os.fsdecode(Path("/proc/self/environ").read_bytes()).split("\0"))
        ),
        "proc cmdline": os.fsdecode(Path("/proc/self/cmdline").read_bytes()).rstrip("\0").split("\0"),
        "proc comm": Path("/proc/self/comm").read_text(),
        "proc exe": str(Path("/proc/self/exe").readlink()),
        "cwd": str(Path.cwd()),
        "streams": [stream(each) for each in (sys.stdin, sys.stdout, sys.stderr)],
        "streams are": [
            sys.stdout is sys.__stdout__,
            sys.stdin is sys.__stdin__,
            sys.stderr is sys.__stderr__,
        ],
        "files": {number: str(Path(f"/proc/self/fd/{number}").readlink()) for number in descriptors()},
        "signals": {number: str(signal.getsignal(number)) for number in range(1, 32)},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "umask": [os.umask(0o22), os.umask(0o22)],
        "nice": os.nice(0),
        "limits": [resource.getrlimit(each) for each in range(15)],
        "leads a session": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "parent": os.getppid(),
        "threads": [threading.current_thread() is threading.main_thread(), threading.active_count()],
        "thread": [threading.main_thread().name, threading.main_thread().native_id == os.getpid()],
        "tasks": len(list(Path("/proc/self/task").iterdir())),
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "tracing": [sys.gettrace(), sys.getprofile()],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "limits of python": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "methods": [multiprocessing.context._default_context.get_start_method(allow_none=True)],
        "locale": [locale.setlocale(locale.LC_ALL), time.tzname],
        "cpu": time.process_time() < 60,
        "stack": [each.name for each in traceback.extract_stack() if "launch/warm" not in each.filename][-2:],
    }


def descriptors() -> list[str]:
    return [entry.name for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]


if __name__ == "__main__":
    atexit.register(print, "atexit of the program")
    for key, value in process_report().items():
        print(json.dumps([key, value], default=str, sort_keys=key != "environ"))
