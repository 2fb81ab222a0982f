"""By which network MPICH's ranks reach each other on the user's nodes. ``pliant doctor --hosts`` finds it out and keeps
it in a file; launches over these nodes take it."""

from __future__ import annotations

import os
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from pathlib import Path

import msgspec

from pliant.files.partial import save
from pliant.model.flavours import NETMOD


def kept_in() -> Path:
    """The file in which it is."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pliant" / "networks.json"


def keep(hosts: Iterable[str], netmod: str) -> None:
    """This netmod works between these hosts; OSError if that cannot be written down."""
    kept_in().parent.mkdir(parents=True, exist_ok=True)
    save({kept_in(): msgspec.json.encode({**_read(), **dict.fromkeys(hosts, netmod)})})


def kept(hosts: Iterable[str]) -> str:
    """The netmod that works on all of them; empty if that is not known, or not the same for all."""
    read = _read()
    found = {read.get(host, "") for host in hosts}
    return found.pop() if len(found) == 1 else ""


def take(hosts: Iterable[str], environ: MutableMapping[str, str]) -> None:
    """Have ranks on these hosts use the network that works there, unless the user has said which."""
    if NETMOD not in environ and (netmod := kept(hosts)):
        environ[NETMOD] = netmod


def _read() -> dict[str, str]:
    with suppress(OSError, RuntimeError, msgspec.MsgspecError):
        return msgspec.json.decode(kept_in().read_bytes(), type=dict[str, str])
    return {}
