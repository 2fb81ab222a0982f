"""The solver of until.py, whose first ranks have no free file descriptor while FULL is there:
``no_descriptor.py FLAG FULL``. A newcomer has them, and MPI_Finalize may need some."""

import importlib
import os
import pathlib
import sys
import threading
import time

FLAG, FULL = (pathlib.Path(word) for word in sys.argv[1:3])
taken: list[int] = []


def take_all() -> None:
    while not FULL.exists():
        time.sleep(0.01)
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        print("none is free", flush=True)
    while FULL.exists():  # which takes none
        time.sleep(0.01)
    while taken:
        os.close(taken.pop())
    print("free again", flush=True)


if __name__ == "__main__":
    solve = importlib.import_module("until").main
    if os.environ["PLIANT_RESIZE"] == "0":
        threading.Thread(target=take_all, daemon=True).start()
    solve(FLAG)
