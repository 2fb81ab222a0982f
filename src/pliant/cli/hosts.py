"""Nodes that are reached by ssh, or are those of a Slurm allocation: as options of commands name them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from pliant.daemon import networks
from pliant.drivers.slurm import JOB
from pliant.drivers.tree import Hosts
from pliant.launch.tree.posting import Starting
from pliant.live.node.dialects import LAUNCHERS
from pliant.live.node.warmth import SWITCH
from pliant.model.errors import PliantError
from pliant.model.nodes import hostlist, parse_hostlist
from pliant.plan import tree

ALLOCATED = "SLURM_JOB_NODELIST"
"""Where Slurm says which nodes an allocation has."""
SSH_OPTION = Annotated[list[str] | None, typer.Option(help="For ssh, such as -p2222; may be repeated.")]
NOT_PASSED = ("SSH_", *LAUNCHERS)
"""Variables that speak of this process, and would be wrong elsewhere."""


class ProviderName(StrEnum):
    """Where nodes come from."""

    LOCAL = "local"
    SSH = "ssh"
    SLURM = "slurm"


def passed_on() -> dict[str, str]:
    """This process' environment, as programs elsewhere get it; PliantError if it cannot be sent there."""
    passed = {key: value for key, value in os.environ.items() if not key.startswith(NOT_PASSED)}
    for name, value in passed.items():
        if not_text := next(
            (what for what, text in (("name", name), ("value", value)) if not is_text(text)), None
        ):
            raise PliantError(
                f"the {not_text} of the environment variable {name!r} is no text in UTF-8, and cannot be sent "
                "to nodes: unset it, as by env -u"
            )
    return passed


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


def _checked(what: str, text: str) -> tuple[str, ...]:
    try:
        names = parse_hostlist(text)
    except ValueError as error:
        raise PliantError(f"{what}: {error}") from None
    if not names:
        raise PliantError(f"{what} names no node")
    if wrong := next((name for name in names if not _may_be(name)), None):
        raise PliantError(f"{what}: no node is called {wrong!r}")
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise PliantError(
            f"{what}: {hostlist(twice)} twice; a node is there once, and may have several slots"
        )
    return tuple(names)


def _may_be(name: str) -> bool:
    return not name.startswith(("-", ".")) and "/" not in name and is_text(name)


def hosts_allocated() -> tuple[str, ...]:
    """Those of the Slurm allocation that this is called in; PliantError if it is called in none."""
    if not (listed := os.environ.get(ALLOCATED)):
        raise PliantError(
            f"there is no Slurm allocation here: {ALLOCATED} is not set; call it in one, by salloc or sbatch"
        )
    return _checked(ALLOCATED, listed)


def hosts_of(
    provider: ProviderName | None, hosts: str, *, ssh_options: Sequence[str], interface: str, degree: str
) -> Hosts | None:
    """The nodes that these options mean, None for virtual ones; PliantError where they do not go together.

    An agent that was started by srun ends with whoever has started it, so that by default the controller starts all.
    """
    kind = provider or (ProviderName.SSH if hosts else ProviderName.LOCAL)
    if (kind is ProviderName.SSH) != bool(hosts):
        raise PliantError(
            f"--provider {kind.value} and --hosts: --hosts names the nodes of ssh, and of it alone"
        )
    if ssh_options and kind is not ProviderName.SSH:
        raise PliantError("--ssh-option is for nodes that are reached by ssh: name them by --hosts")
    if kind is ProviderName.LOCAL:
        if interface or degree:
            raise PliantError("--interface and --degree are for --hosts and --provider slurm")
        return None
    try:
        tree.named(degree or "32")
    except ValueError as error:
        raise PliantError(f"--degree: {error}") from None
    by_ssh = kind is ProviderName.SSH
    names = hosts_named(hosts) if by_ssh else hosts_allocated()
    networks.take(names, os.environ)
    return Hosts(
        names=names,
        starting=Starting("ssh", tuple(ssh_options)) if by_ssh else Starting("srun"),
        interface=interface,
        degree=degree or ("32" if by_ssh else "direct"),
        env=passed_on(),
        warm=os.environ.get(SWITCH) != "0",
        allocation="" if by_ssh else os.environ.get(JOB, ""),
    )
