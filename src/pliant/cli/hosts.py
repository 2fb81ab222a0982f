"""Nodes that are reached by ssh, or are those of a Slurm allocation: as options of commands name them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from pliant.launch.tree.posting import Starting
from pliant.live.node.dialects import LAUNCHERS
from pliant.live.node.warmth import SWITCH
from pliant.model.errors import PliantError
from pliant.model.hostfile import HostSlots, parse_hostfile
from pliant.model.hostfile import names as names_of
from pliant.model.hosts import doubles, excluded, node_at
from pliant.model.nodes import hostlist, parse_hostlist
from pliant.plan import tree
from pliant.protocol import codec

if TYPE_CHECKING:
    from pliant.drivers.tree import Hosts

ALLOCATED = "SLURM_JOB_NODELIST"
"""Where Slurm says which nodes an allocation has."""
SSH_OPTION = Annotated[list[str] | None, typer.Option(help="For ssh, such as -p2222; may be repeated.")]
HOSTFILE = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Nodes that are reached by ssh, a line for each: host, host:slots, or host slots=4 max_slots=8; a name "
        "again adds slots.",
    ),
]
EXCLUDE = Annotated[
    str,
    typer.Option(
        metavar="NAMES", help="Leave these hosts out, as node[03-04]; node3 also means node3.cluster.org."
    ),
]
REMOTE_SHELL = Annotated[
    str,
    typer.Option(
        metavar="CMD",
        help="In the place of ssh, on all nodes: called as CMD OPTIONS host command, with the options of "
        "--ssh-option.",
    ),
]
SEND = Annotated[
    list[str] | None,
    typer.Option(
        "-x",
        metavar="VAR[=VALUE]",
        help="Send this variable, with its value here or another one; may be repeated. Others are sent as well.",
    ),
]
NOT_PASSED = ("SSH_", *LAUNCHERS)
"""Variables that speak of this process, and would be wrong elsewhere."""


class ProviderName(StrEnum):
    """Where nodes come from."""

    LOCAL = "local"
    SSH = "ssh"
    SLURM = "slurm"


ROOM = codec.MAX_LINE - codec.WRAPPING
"""Bytes that what a job is started with may have on its way."""
BESIDE = 1 << 17
"""Of these bytes, as many are for the command and the own variables of a batch's jobs."""


def passed_on(room: int = ROOM - BESIDE) -> dict[str, str]:
    """This process' environment, as programs elsewhere get it in ``room`` bytes. A line on standard error names each
    variable that cannot be sent: it has no name, is no text in UTF-8, or is the longest of too many."""
    passed = {key: value for key, value in os.environ.items() if not key.startswith(NOT_PASSED)}
    for name in [name for name, value in passed.items() if not name or not is_text(name + value)]:
        _not_passed(name, "it is no text in UTF-8" if name else "it has no name")
        del passed[name]
    sizes = {name: len(msgspec.json.encode({name: value})) for name, value in passed.items()}
    size = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if size <= room:
            break
        _not_passed(name, f"all have {size:,} bytes, {room:,} is the most, and it is the longest")
        size -= sizes[name]
        del passed[name]
    return passed


def _not_passed(name: str, why: str) -> None:
    sys.stderr.write(f"pliant: the environment variable {name!r} is not sent to nodes: {why}\n")


def is_text(text: str) -> bool:
    """Whether it is one in UTF-8: what was given to this process need not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def hosts_named(hosts: str) -> tuple[str, ...]:
    """Those of ``--hosts``; PliantError if there is none, or one twice, or what no node can be called."""
    return _checked("--hosts", hosts)


def _listed(what: str, text: str) -> tuple[str, ...]:
    """The nodes of a hostlist; PliantError that begins with ``what``."""
    try:
        return tuple(map(node_at, parse_hostlist(text)))
    except ValueError as error:
        raise PliantError(f"{what}: {error}") from None


def _checked(what: str, text: str) -> tuple[str, ...]:
    names = _listed(what, text)
    if not names:
        raise PliantError(f"{what} names no node")
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise PliantError(
            f"{what}: {hostlist(twice)} twice; a node is there once; a --hostfile gives it several slots"
        )
    _check_apart(what, names)
    return names


def _check_apart(what: str, names: Iterable[str]) -> None:
    """PliantError if two of them may be one host."""
    for one, other in doubles(names):
        raise PliantError(
            f"{what}: {one} and {other} may be one host; name it once, or write both names in full"
        )


def hosts_in(path: Path) -> tuple[HostSlots, ...]:
    """The hosts of ``--hostfile``; PliantError if it cannot be read, is no hostfile or names no host."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PliantError(f"--hostfile {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PliantError(f"--hostfile {path}: it is no text in UTF-8") from None
    hosts = parse_hostfile(text, str(path))
    if not hosts:
        raise PliantError(f"--hostfile {path}: it names no host; write one a line")
    _check_apart(f"--hostfile {path}", names_of(hosts))
    return hosts


def hosts_allocated() -> tuple[str, ...]:
    """Those of the Slurm allocation that this is called in; PliantError if it is called in none."""
    if not (listed := os.environ.get(ALLOCATED)):
        raise PliantError(
            f"there is no Slurm allocation here: {ALLOCATED} is not set; call it in one, by salloc or sbatch"
        )
    return _checked(ALLOCATED, listed)


class HostOptions(NamedTuple):
    """Which hosts are meant, None where the option is not given, and how they are reached."""

    hosts: str | None = None
    hostfile: Path | None = None
    exclude: str = ""
    ssh_options: Sequence[str] = ()
    remote_shell: str = ""

    @property
    def by_ssh(self) -> bool:
        """Whether hosts are named."""
        return self.hosts is not None or self.hostfile is not None

    def starting(self) -> Starting:
        """How agents are started on hosts that are named, or on those of the allocation; PliantError."""
        if not self.by_ssh:
            return Starting("srun")
        return Starting("ssh", tuple(self.ssh_options), shell=_command(self.remote_shell))

    def found(self) -> tuple[HostSlots, ...]:
        """The named hosts, or those of the allocation, without the excluded ones; PliantError."""
        if self.hosts is not None and self.hostfile is not None:
            raise PliantError("--hosts and --hostfile: give one of them")
        if self.hostfile is not None:
            found = hosts_in(self.hostfile)
        else:
            found = tuple(
                map(HostSlots, hosts_allocated() if self.hosts is None else hosts_named(self.hosts))
            )
        out, idle = excluded(names_of(found), _listed("--exclude", self.exclude))
        if len(out) == len(found):
            raise PliantError(f"--exclude {self.exclude}: no host is left of {hostlist(names_of(found))}")
        if idle:
            sys.stderr.write(f"pliant: --exclude: no host is called {hostlist(idle)}\n")
        return tuple(host for host in found if host.name not in out)

    def check_unused(self, *, allocated: bool) -> None:
        """PliantError if anything is said that is for hosts alone, though none are named. Those that are ``allocated``
        can be excluded."""
        for option, value in (
            ("--ssh-option", self.ssh_options),
            ("--remote-shell", self.remote_shell),
            ("--exclude", self.exclude and not allocated),
        ):
            if value and not self.by_ssh:
                raise PliantError(
                    f"{option} is for nodes that are reached by ssh: name them by --hosts or --hostfile"
                )


def _command(text: str) -> tuple[str, ...]:
    """The words of ``--remote-shell``; PliantError if there is no such command here."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise PliantError(f"--remote-shell {text}: {error}") from None
    if not words:
        return ()
    if (path := shutil.which(words[0])) is None:
        raise PliantError(f"--remote-shell {text}: there is no command {words[0]!r} here; give its path")
    # Agents on other nodes look for it too, from another directory.
    return (os.path.abspath(path) if "/" in words[0] else words[0], *words[1:])  # noqa: PTH100 - symlinks stay


def sent(variables: Sequence[str]) -> dict[str, str]:
    """The variables of ``-x`` with their values; a line on standard error for one that is not here. PliantError for
    what can be no variable."""
    found: dict[str, str] = {}
    for text in variables:
        name, equals, value = text.partition("=")
        if (
            not name
            or not is_text(text)
            or not is_text(value := value if equals else os.environ.get(name, ""))
        ):
            raise PliantError(f"-x {text!r}: no variable in UTF-8; write -x NAME or -x NAME=VALUE")
        if equals or name in os.environ:
            found[name] = value
        else:
            sys.stderr.write(f"pliant: -x {name}: there is no such variable here, and none is sent\n")
    return found


def hosts_of(
    provider: ProviderName | None, options: HostOptions, *, interface: str, degree: str
) -> tuple[Hosts, int] | None:
    """The nodes that these options mean, and how many slots each has at least; None for virtual ones. PliantError where
    the options do not go together.

    An agent that was started by srun ends with whoever has started it, so that by default the controller starts all.
    """
    from pliant.daemon import networks
    from pliant.drivers.slurm import JOB
    from pliant.drivers.tree import Hosts  # slow to load, and not needed for a launch

    kind = provider or (ProviderName.SSH if options.by_ssh else ProviderName.LOCAL)
    if (kind is ProviderName.SSH) != options.by_ssh:
        named = "--hosts" if options.hostfile is None else "--hostfile"
        raise PliantError(
            f"--provider {kind.value} and {named}: {named} names the nodes of ssh, and of it alone"
        )
    options.check_unused(allocated=kind is ProviderName.SLURM)
    if kind is ProviderName.LOCAL:
        if interface or degree:
            raise PliantError("--interface and --degree are for --hosts and --provider slurm")
        return None
    try:
        tree.named(degree or "32")
    except ValueError as error:
        raise PliantError(f"--degree: {error}") from None
    by_ssh = kind is ProviderName.SSH
    found = options.found()
    names = names_of(found)
    networks.take(names, os.environ)
    hosts = Hosts(
        names=names,
        starting=options.starting(),
        interface=interface,
        degree=degree or ("32" if by_ssh else "direct"),
        env=passed_on(),
        warm=os.environ.get(SWITCH) != "0",
        allocation="" if by_ssh else os.environ.get(JOB, ""),
    )
    return hosts, min(host.slots for host in found)
