"""The files of a virtual cluster: who is where, keys of its own, and what ssh and sshd are to do."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pliant
from pliant.model.errors import PliantError
from pliant.testing.cluster.possible import NAMESPACES, found

HEAD = "head"
HEAD_ADDRESS = "10.77.255.254"
MOST_NODES = 500
"""Far below what a bridge takes."""
OWN = ("/tmp", "/dev/shm")
"""What each node has of its own, empty at first."""
NODE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEY_EXCHANGE = "KexAlgorithms curve25519-sha256"
"""A few processors do the sums for all hosts here: what OpenSSH takes by default costs each end 70 ms of one."""
KEYGEN_S = 20.0


def names_of(nodes: int) -> tuple[str, ...]:
    """Of equal width, so that host lists are short: ``node[01-16]``."""
    width = max(2, len(str(nodes)))
    return tuple(f"node{number:0{width}d}" for number in range(1, nodes + 1))


def addresses(names: Sequence[str]) -> dict[str, str]:
    return {name: f"10.77.{number // 250}.{number % 250 + 1}" for number, name in enumerate(names)}


def visible(place: Path) -> list[Path]:
    """What nodes are to see although it lies where they have something of their own: the cluster's directory, this
    interpreter, Pliant, and the directory that the cluster is made in."""
    wanted = {place, Path(sys.prefix), Path(sys.base_prefix), Path(pliant.__file__).parent, Path.cwd()}
    paths = {path.resolve() for path in wanted} | {path.absolute() for path in wanted}
    inside = {path for path in paths if any(Path(own) in path.parents for own in OWN)}
    return sorted(path for path in inside if inside.isdisjoint(path.parents))


def lay_out(place: Path, names: Sequence[str], ssh_delay_s: float, patience_s: float) -> None:
    """Write all that the head and the nodes read into ``place``, an empty directory. Times in seconds."""
    for folder in ("ssh", "log", "bin", "stage"):
        (place / folder).mkdir()
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    at = addresses(names)
    hosts = ["127.0.0.1 localhost", f"{HEAD_ADDRESS} {HEAD}", *(f"{at[name]} {name}" for name in names)]
    (place / "hosts").write_text("\n".join(hosts) + "\n")
    # A root without a password may be "locked", which sshd takes for no entry; here it has no password to lock.
    (place / "shadow").write_text("root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n")
    (place / "visible").write_text("".join(f"{path}\n" for path in visible(place)))
    shutil.copy(Path(__file__).with_name("node.sh"), place)
    shutil.copy(Path(__file__).with_name("head.py"), place)
    _write_ssh(place, names)
    slow_ssh(place, ssh_delay_s)
    bound = [("hosts", "/etc/hosts"), ("ssh", "/etc/ssh"), ("shadow", "/etc/shadow")]
    plan = {
        "nodes": at,
        "head": HEAD_ADDRESS,
        "patience_s": patience_s,
        "sshd": found("sshd"),
        "apart": [found("unshare"), *NAMESPACES, "--fork", "--kill-child", "--mount-proc"],
        # bash reads its file for each command that comes by ssh, whatever a user has put there.
        "bound": [(str(place / source), target) for source, target in bound]
        + [("/dev/null", str(path)) for path in [home / ".bashrc"] if path.exists()],
        "hidden": [str(path) for path in [home / ".ssh"] if path.is_dir()],
    }
    (place / "plan.json").write_text(json.dumps(plan))


def _write_ssh(place: Path, names: Sequence[str]) -> None:
    """/etc/ssh of all: a user's key, and one key for all hosts, made for this cluster."""
    etc = place / "ssh"
    for key in ("user_key", "host_key"):
        words = [
            found("ssh-keygen"),
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "virtual cluster",
            "-f",
            str(etc / key),
        ]
        try:
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=KEYGEN_S, check=True)
        except subprocess.CalledProcessError as error:
            raise PliantError(f"ssh-keygen made no key: {error.stderr.decode().strip()}") from None
        except subprocess.TimeoutExpired:
            raise PliantError(f"ssh-keygen made no key within {KEYGEN_S:g} s") from None
    (etc / "ssh_known_hosts").write_text(f"{','.join(names)} {(etc / 'host_key.pub').read_text()}")
    (etc / "ssh_config").write_text(
        "Host *\n"
        "  IdentityFile /etc/ssh/user_key\n"
        "  IdentitiesOnly yes\n"
        "  UserKnownHostsFile /dev/null\n"
        "  CheckHostIP no\n"
        "  BatchMode yes\n"
        f"  {KEY_EXCHANGE}\n"
    )
    (etc / "sshd_config").write_text(
        "HostKey /etc/ssh/host_key\n"
        "AuthorizedKeysFile /etc/ssh/user_key.pub\n"
        "StrictModes no\n"  # the key lies in a directory for temporary files
        "PermitRootLogin yes\n"
        "PasswordAuthentication no\n"
        "UsePAM no\n"
        "UseDNS no\n"
        "PidFile none\n"
        "MaxStartups 1000\n"
        "MaxSessions 1000\n"
        "PrintMotd no\n"
        "LogLevel ERROR\n"
        f"{KEY_EXCHANGE}\n"
        f"SetEnv PATH={place / 'bin'}:{NODE_PATH}\n"
    )


def slow_ssh(place: Path, delay_s: float) -> None:
    """Make each connection by ssh in this cluster take so much longer from now on; ``ssh -G`` makes none."""
    path = place / "bin" / "ssh"
    if not delay_s:
        path.unlink(missing_ok=True)
        return
    made = path.with_name(".ssh")  # what runs at this moment is read as it was
    made.write_text(f'#!/bin/sh\n[ "$1" = -G ] || sleep {delay_s:g}\nexec {shlex.quote(found("ssh"))} "$@"\n')
    made.chmod(0o755)
    made.replace(path)
