"""A process of a job that breaks the protocol in every way it can think of, one connection each."""

import json
import os
import pathlib
import socket

token = pathlib.Path(os.environ["PLIANT_TOKEN_FILE"]).read_text()
job, group = int(os.environ["PLIANT_JOB"]), int(os.environ["PLIANT_GROUP"])
hello = {"type": "hello", "job": job, "group": group, "epoch": 0, "token": token, "ranks": 1, "version": 1}


def say(*lines: object, expect: int = 0) -> list[str]:
    """Send lines, read answers until the connection closes, or until as many are there as are expected."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30.0)
        connection.connect(os.environ["PLIANT_SOCKET"])
        answers = b""
        try:
            for line in lines:
                connection.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
            while not expect or answers.count(b"\n") < expect:
                data = connection.recv(65536)
                if not data:
                    break
                answers += data
        except ConnectionError:
            pass
    return [json.loads(line)["type"] for line in answers.splitlines()]


assert say(b"no json\n") == ["error"]
assert say({**hello, "token": "wrong"}) == ["error"]
assert say({**hello, "job": 99}) == ["error"]
assert say({"type": "want", "epoch": 0, "bounds": {"min": 1, "max": 2}}) == ["error"]
say(b"x" * 3_000_000)  # its connection is closed, before it is all there or after
done = {"type": "done", "epoch": 0, "resize": 1, "root": 0}
assert say(hello, {**hello, "type": "unheard-of"})[-1] == "error"
# What the scheduler answers is for the session that asked, not for the group's next one.
lies = ({**done, "root": 77}, {**done, "released": [99]}, done)
assert say({**hello, "version": 2}, expect=1) == ["error"]
for _ in range(20):
    assert say(hello, *lies[:1], expect=1)[0] == "welcome"
assert say(hello, *lies, expect=4) == ["welcome"] + ["error"] * 3
say(hello, {"type": "bye", "epoch": 0}, expect=1)  # it ends in good order all the same
print("held")
