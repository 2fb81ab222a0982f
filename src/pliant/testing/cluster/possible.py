"""Whether a virtual cluster can be had on this machine, and what to do where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from pliant.model.errors import PliantError

PACKAGES = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
}
"""The Debian package that has each program that is needed."""

NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid")
"""What the cluster has of its own, and each node again; as options of unshare and nsenter."""

PATIENCE_S = 20.0
_LINKS = "ip link add name br0 type bridge && ip link add v0 type veth peer name eth0"


def search_path() -> str:
    """PATH, and where system programs are that only root has in it."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def program(name: str) -> str | None:
    """The path of a program, None if it is not there."""
    return shutil.which(name, path=search_path())


def found(name: str) -> str:
    """The path of a program of ``PACKAGES``; PliantError if it is not there."""
    path = program(name)
    if path is None:
        raise PliantError(f"{name} is not there: install {PACKAGES[name]}")
    return path


def why_not() -> str:
    """Empty if a virtual cluster can be had here; else why not, and what to do."""
    if sys.platform != "linux":
        return "virtual clusters are made of Linux namespaces; this is no Linux"
    if os.geteuid() != 0:
        return "virtual clusters need root: namespaces, links and sshd are made"
    missing = [name for name in PACKAGES if program(name) is None]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGES[name] for name in missing))
        return f"virtual clusters need {', '.join(missing)}: apt-get install {packages}"
    try:
        done = subprocess.run(
            [found("unshare"), *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "sh", "-c", _LINKS],
            env={**os.environ, "PATH": search_path()},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"namespaces could not be made within {PATIENCE_S:g} s"
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"unshare exited with {done.returncode}"
        return f"namespaces with links of their own are refused here ({said}): a container needs --privileged"
    return ""
