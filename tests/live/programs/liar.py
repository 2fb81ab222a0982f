"""A process of a job that breaks the protocol in every way it can think of, one connection each."""

import json
import os
import pathlib
import socket

token = pathlib.Path(os.environ["PLIANT_TOKEN_FILE"]).read_text()
job, group = int(os.environ["PLIANT_JOB"]), int(os.environ["PLIANT_GROUP"])
hello = {"type": "hello", "job": job, "group": group, "epoch": 0, "token": token, "ranks": 1, "version": 1}


def say(*lines: object) -> list[str]:
    """Send lines, read answers until the connection closes or nothing comes for a moment."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        connection.connect(os.environ["PLIANT_SOCKET"])
        answers = b""
        try:
            for line in lines:
                connection.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
            while data := connection.recv(65536):
                answers += data
        except (TimeoutError, ConnectionError):
            pass
    return [json.loads(line)["type"] for line in answers.splitlines()]


assert say(b"no json\n") == ["error"]
assert say({**hello, "token": "wrong"}) == ["error"]
assert say({**hello, "job": 99}) == ["error"]
assert say({"type": "want", "epoch": 0, "bounds": {"min": 1, "max": 2}}) == ["error"]
say(b"x" * 3_000_000)
done = {"type": "done", "epoch": 0, "resize": 1, "root": 0}
assert say(hello, {**hello, "type": "unheard-of"})[-1] == "error"
assert say(hello, {**done, "root": 77}, {**done, "released": ["mars"]}, done) == ["welcome"] + ["error"] * 3
print("held")
