"""Run ``pliant``, which gets SIGTERM when it makes or removes a run's directory: ``signalled.py EVENT pliant ...``, with
an event of Python's audit hooks."""

import os
import runpy
import signal
import sys
from pathlib import Path

_, wanted, *sys.argv = sys.argv
told: list[str] = []


def hook(event: str, args: tuple[object, ...]) -> None:
    if event == wanted and not told and Path(str(args[0])).parent.name == f"pliant-{os.getuid()}":
        told.append(event)
        os.kill(os.getpid(), signal.SIGTERM)


sys.addaudithook(hook)
runpy.run_path(sys.argv[0], run_name="__main__")
