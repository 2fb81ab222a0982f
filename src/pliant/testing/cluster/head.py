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
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

PAUSE_S = 0.02
CONNECT_S = 5.0
TAIL = 2000


def main() -> NoReturn:
    place, maker = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(maker, False)
    threading.Thread(target=_end_with, args=(maker, place), daemon=True).start()
    os.chdir("/")
    plan = json.loads((place / "plan.json").read_text())
    deadline = time.monotonic() + plan["patience_s"]
    _furnish(place, plan)
    nodes = {name: _start(place, name, address, plan) for name, address in plan["nodes"].items()}
    for name, address in plan["nodes"].items():
        _reach(name, address, nodes[name], place, deadline)
    _do("umount", str(place / "head.net"))
    print("up", flush=True)  # noqa: T201 - whoever made the cluster waits for it
    while True:
        try:
            os.wait()
        except ChildProcessError:  # every node has been killed; others' orphans may still come
            time.sleep(PAUSE_S)


def _end_with(maker: int, place: Path) -> NoReturn:
    """End when the maker has. It would have removed the cluster's directory, and cannot any more."""
    ended = select.poll()
    ended.register(maker, select.POLLIN)
    while not ended.poll():
        pass
    shutil.rmtree(place, ignore_errors=True)
    os._exit(1)


def _furnish(place: Path, plan: dict[str, Any]) -> None:
    """What the nodes take over: names, keys, and nothing of this user's own habits. Then the switch between them."""
    _write("/proc/sys/kernel/hostname", "head")
    for source, target in plan["bound"]:
        _do("mount", "--bind", source, target)
    for target in plan["hidden"]:
        _do("mount", "-t", "tmpfs", "-o", "mode=700", "own", target)
    _do("mount", "-t", "tmpfs", "-o", "mode=1777", "own", "/dev/shm")
    _do("mount", "-t", "sysfs", "own", "/sys")
    (place / "head.net").touch()
    _do("mount", "--bind", "/proc/self/ns/net", str(place / "head.net"))
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
    script = [str(place / "node.sh"), str(place), name, address, f"v{name}", plan["sshd"]]
    with (place / "log" / name).open("wb") as log:
        return subprocess.Popen(
            [*plan["apart"], "sh", *script], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _reach(name: str, address: str, node: subprocess.Popen[bytes], place: Path, deadline: float) -> None:
    """Wait until the node's sshd answers; end, saying why, if it does not."""
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
    sys.exit(f"{name} does not come up: {'; '.join(filter(None, (why, said)))}")


def _listens(node: int) -> bool:
    """Whether somebody listens on port 22 in the network of a process."""
    lines = Path(f"/proc/{node}/net/tcp").read_text().splitlines()
    return any(line.split()[1].endswith(":0016") and line.split()[3] == "0A" for line in lines[1:])


def _do(*words: str, told: str = "") -> None:
    done = subprocess.run(words, input=told, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as error:
        if "ipv6" not in path:  # a kernel without it has nothing to turn off
            sys.exit(str(error))


if __name__ == "__main__":
    main()
