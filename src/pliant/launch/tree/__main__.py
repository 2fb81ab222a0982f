"""An agent of a launch tree, as a program: what comes before `entry.py`, so that it costs little to start.

An agent is started on every node, and most of the processor time of a launch is that of modules being loaded.
"""

import gc
import os
import sys
from collections.abc import Callable
from importlib import import_module

from pliant.launch.descriptors import open_standard
from pliant.launch.tree import LEAVING


def main() -> None:
    open_standard()
    told = _leave() if sys.argv[-1] == LEAVING else -1
    load()(told)


def load() -> Callable[[int], None]:
    """All that an agent needs; what it is then."""
    gc.disable()  # what is loaded stays
    _go_without()
    from pliant.launch.tree.entry import main as enter

    gc.freeze()  # or all of it is copied when one of the node's two processes first looks for garbage
    gc.enable()
    return enter


def _go_without() -> None:
    """Load nothing that is not used here, of what asyncio, msgspec and hmac take where it is there: links are not
    encrypted, and Python has a SHA-256 of its own, if it was not built without."""
    absent = ["ssl", "typing_extensions"]
    try:
        import_module("_sha256")
    except ImportError:
        pass
    else:
        absent.append("_hashlib")
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]


def _leave() -> int:
    """Go on in another process, before there is much to copy. What has started this one sees it end when a word comes
    by the pipe that is answered, or else as the other one has ended."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        os.close(read)
        return write
    os.close(write)
    if not os.read(read, 1):
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    os._exit(0)


if __name__ == "__main__":
    main()
