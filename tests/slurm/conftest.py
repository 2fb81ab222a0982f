"""A Slurm of four nodes on this machine's loopback, with daemons of its own that end with the tests."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

NODES = 4
UP_S = 30.0
NEEDED = ("munged", "slurmctld", "slurmd", "sinfo", "salloc", "srun")
CONF = """
ClusterName=pliant
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place}/munge.sock
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/linear
SlurmdParameters=config_overrides
KillWait=1
CompleteWait=0
TreeWidth=65533
NodeName=DEFAULT CPUs=2 RealMemory=1000 State=UNKNOWN
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def why_not() -> str:
    if os.getuid():
        return "a Slurm of one's own needs root"
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        return f"no {', '.join(missing)}: apt-get install slurm-wlm slurm-wlm-basic-plugins munge"
    return ""


def daemons(place: Path) -> list[list[str]]:
    """In the foreground, so that they are ours to end."""
    munge = [
        "munged", "--foreground", "--force", f"--socket={place}/munge.sock", f"--key-file={place}/munge.key",
        f"--pid-file={place}/munged.pid", f"--log-file={place}/munged.log", f"--seed-file={place}/munge.seed",
    ]  # fmt: skip
    return [
        munge,
        ["slurmctld", "-D", "-i"],
        *(["slurmd", "-D", "-N", f"node{i}"] for i in range(1, NODES + 1)),
    ]


@pytest.fixture(scope="session")
def slurm() -> Iterator[Path]:
    """Its directory; SLURM_CONF is set."""
    if reason := why_not():
        pytest.skip(reason)
    place = Path(tempfile.mkdtemp(prefix="pliant-slurm-"))
    port, *ports = free_ports(NODES + 1)
    host = socket.gethostname().partition(".")[0]
    nodes = "\n".join(
        f"NodeName=node{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={each}"
        for i, each in enumerate(ports, 1)
    )
    (place / "slurm.conf").write_text(CONF.format(place=place, host=host, port=port, nodes=nodes))
    (place / "munge.key").write_bytes(secrets.token_bytes(256))
    (place / "munge.key").chmod(0o600)
    started: list[subprocess.Popen[bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", f"{place}/slurm.conf")
        try:
            with (place / "said").open("wb") as said:
                for words in daemons(place):
                    started.append(
                        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
                    )
                    if words[0] == "munged":
                        _until_there(place / "munge.sock", started[0])
            _until_idle(place)
            yield place
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
            for process in reversed(started):
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            shutil.rmtree(place, ignore_errors=True)


def _until_there(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + UP_S
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def _until_idle(place: Path) -> None:
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            words = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
            idle = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
            if idle.stdout.strip() == str(NODES):
                return
        time.sleep(0.05)
    pytest.skip(f"Slurm did not come up within {UP_S:g} s: {(place / 'said').read_text()[-500:]}")
