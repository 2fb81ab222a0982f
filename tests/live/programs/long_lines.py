"""A job's process whose lines are as long as the protocol allows, and grow when they are written anew."""

import json
import os
import pathlib
import socket

token = pathlib.Path(os.environ["PLIANT_TOKEN_FILE"]).read_text()
job, group = int(os.environ["PLIANT_JOB"]), int(os.environ["PLIANT_GROUP"])
hello = {"type": "hello", "job": job, "group": group, "epoch": 0, "token": token, "ranks": 1, "version": 1}
phases = ",".join(f'"{i}":1e15' for i in range(80_000))
done = f'{{"type":"done","epoch":0,"resize":1,"root":0,"phases":{{{phases}}}}}\n'.encode()
assert 900_000 < len(done) < 1 << 20
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(30.0)
    connection.connect(os.environ["PLIANT_SOCKET"])
    answers = connection.makefile("rb")
    connection.sendall(json.dumps(hello).encode() + b"\n")
    assert json.loads(answers.readline())["type"] == "welcome"
    connection.sendall(done)
    assert json.loads(answers.readline())["type"] == "error"  # there is no resize to be done
    connection.sendall(b'{"type":"bye","epoch":0}\n')
    print("held")
