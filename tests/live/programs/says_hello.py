"""Opens its session as a place does, tells whether a module that it does not import is there, and stays as told."""

import os
import socket
import sys
import time
from pathlib import Path

from pliant.protocol import codec
from pliant.protocol import messages as m

with socket.socket(socket.AF_UNIX) as session:
    session.connect(os.environ["PLIANT_SOCKET"])
    token = Path(os.environ["PLIANT_TOKEN_FILE"]).read_text().strip()
    group = int(os.environ["PLIANT_GROUP"])
    session.sendall(codec.encode(m.Hello(int(os.environ["PLIANT_JOB"]), group, 0, token, 1)))
    said = "warm" if "colorsys" in sys.modules else "cold"
    if "daemon" in sys.argv:  # which says the word
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.environ.clear()
                print(said, flush=True)
                time.sleep(600)
            os._exit(0)
        os.wait()
    else:
        print(said, flush=True)
    if "stay" in sys.argv:
        time.sleep(600)
