"""The first process of a virtual cluster: it furnishes the head, starts the nodes, and collects what has ended there.

A program, run by its path as ``head.py PLACE MAKER``: PLACE has what ``layout.py`` puts there, MAKER is a file
descriptor by which it is seen that the process has ended for which the cluster was made. It ends then, however that
came about; and when it ends, so does every process of the cluster.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

PAUSE_S = 0.02
CONNECT_S = 5.0
REMOVE_S = 20.0
TAIL = 2000


class Failure(Exception):  # noqa: N818 -- the cluster's, which cannot come up
    """Why the cluster does not come up."""


def main() -> NoReturn:
    place, maker = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(maker, False)
    os.chdir("/")
    over = threading.Event()
    threading.Thread(target=_keep, args=(place, over), daemon=True).start()
    ended = select.poll()
    ended.register(maker, select.POLLIN)
    while not ended.poll():
        pass
    over.set()
    # The maker would have removed the cluster's directory, and cannot any more. Nobody may write there meanwhile.
    deadline = time.monotonic() + REMOVE_S
    while place.exists() and time.monotonic() < deadline:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        shutil.rmtree(place, ignore_errors=True)
    os._exit(1)


def _keep(place: Path, over: threading.Event) -> None:
    """Let the cluster come up, and collect what has ended in it; all of it ends if that fails."""
    try:
        _come_up(place)
        while True:
            try:
                os.wait()
            except ChildProcessError:  # every node has been killed; others' orphans may still come
                time.sleep(PAUSE_S)
    except BaseException as error:  # noqa: BLE001 -- whatever it is, whoever waits for the cluster is told
        if not over.is_set():
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
            os._exit(1)


def _come_up(place: Path) -> None:
    plan = json.loads((place / "plan.json").read_text())
    deadline = time.monotonic() + plan["patience_s"]
    _furnish(plan)
    nodes = {name: _start(place, name, address, plan) for name, address in plan["nodes"].items()}
    for name, address in plan["nodes"].items():
        _reach(name, address, nodes[name], place, deadline)
    print("up", flush=True)  # noqa: T201 -- whoever made the cluster waits for it


def _furnish(plan: dict[str, Any]) -> None:
    """What the nodes take over: names, keys, and nothing of this user's own habits. Then the switch between them."""
    _write("/proc/sys/kernel/hostname", "head")
    for source, target in plan["bound"]:
        _do("mount", "--bind", source, target)
    for target in plan["hidden"]:
        _do("mount", "-t", "tmpfs", "-o", "mode=700", "own", target)
    _do("mount", "-t", "tmpfs", "-o", "mode=1777", "own", "/dev/shm")
    _do("mount", "-t", "sysfs", "own", "/sys")
    _write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
    # A bridge without an address takes the lowest of its ports', another whenever a node joins, which loses messages.
    links = (
        "link set lo up",
        "link add br0 address 02:00:0a:4d:ff:fe type bridge",
        f"address add {plan['head']}/16 dev br0",
        "link set br0 up",
    )
    _do("ip", "-batch", "-", told="".join(f"{line}\n" for line in links))


def _start(place: Path, name: str, address: str, plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    with (place / "log" / name).open("wb") as log, Path("/proc/self/ns/net").open("rb") as network:
        head = f"/proc/self/fd/{network.fileno()}"
        script = [str(place / "node.sh"), str(place), name, address, f"v{name}", head, plan["sshd"]]
        return subprocess.Popen(
            [*plan["apart"], "sh", *script],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[network.fileno()],
        )  # fmt: skip


def _reach(name: str, address: str, node: subprocess.Popen[bytes], place: Path, deadline: float) -> None:
    """Wait until the node's sshd answers; Failure, saying why, if it does not."""
    why = "its sshd does not listen"
    while node.poll() is None and time.monotonic() < deadline:
        if _listens(node.pid):  # what is sent to a link that is down is sent again only after a second
            try:
                with socket.create_connection((address, 22), timeout=CONNECT_S) as there:
                    if there.recv(4) == b"SSH-":
                        return
            except OSError as error:
                why = str(error)
        time.sleep(PAUSE_S)
    said = (place / "log" / name).read_text(errors="replace")[-TAIL:].strip()
    raise Failure(f"{name} does not come up: {'; '.join(filter(None, (why, said)))}")


def _listens(node: int) -> bool:
    """Whether somebody listens on port 22 in the network of a process."""
    try:
        lines = Path(f"/proc/{node}/net/tcp").read_text().splitlines()
    except OSError:  # it has just ended
        return False
    return any(line.split()[1].endswith(":0016") and line.split()[3] == "0A" for line in lines[1:])


def _do(*words: str, told: str = "") -> None:
    done = subprocess.run(words, input=told, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(words)}: {done.stderr.strip()}")


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as error:
        if "ipv6" not in path:  # a kernel without it has nothing to turn off
            raise Failure(str(error)) from None


if __name__ == "__main__":
    main()
