"""The three standard descriptors: whoever starts us may have closed them."""

from __future__ import annotations

import os
import sys


def open_standard() -> None:
    """Open descriptors 0 to 2 on the null device where they are closed, before any other file is opened.

    Else the first file, a journal perhaps, would become the standard output of every program started later.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
            setattr(sys, f"__{name}__", getattr(sys, name))
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
