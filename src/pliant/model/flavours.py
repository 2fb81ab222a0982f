"""Which MPI a job loads, and what follows from that: how its ranks are launched, and whether it can be resized.

One table, a row a flavour and range of versions. What it is made of was tried, and each row names the test that shows
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

NETMOD = "MPIR_CVAR_CH4_NETMOD"
"""By what MPICH sends messages to other nodes. A user who has set it means it."""

MPICH, INTEL, OPEN, OTHER = "mpich", "intel", "openmpi", "other"
TITLES = {MPICH: "MPICH", INTEL: "Intel MPI", OPEN: "Open MPI"}

Version = tuple[int, ...]


class Mpi(NamedTuple):
    """An MPI library. ``netmods`` are those that an MPICH was built with; empty if that is not known. ``title`` is what
    another flavour calls itself."""

    flavour: str
    version: Version
    netmods: tuple[str, ...] = ()
    title: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return f"{TITLES.get(self.flavour) or self.title} {'.'.join(map(str, self.version))}".strip()

    @property
    def text(self) -> str:
        """As :func:`named` reads it; of another flavour nothing."""
        if self.flavour not in TITLES:
            return ""
        words = (self.flavour, ".".join(map(str, self.version)), ",".join(self.netmods))
        return " ".join(word for word in words if word)


def identify(said: str) -> Mpi:
    """The library that calls itself so (MPI_Get_library_version)."""
    for flavour, pattern in (
        (MPICH, r"^MPICH Version:\s*([\d.]+)"),
        (INTEL, r"^Intel\(R\) MPI Library ([\d.]+)"),
        (OPEN, r"^Open MPI v([\d.]+)"),
    ):
        if found := re.search(pattern, said, re.MULTILINE):
            built = re.search(r"^MPICH Device:\s*ch4:([\w ,]+)", said, re.MULTILINE)
            return Mpi(
                flavour, _version(found[1]), tuple(re.split("[ ,]+", built[1].strip())) if built else ()
            )
    return Mpi(OTHER, (), title=said.strip().split("\n")[0][:80] or "an MPI that does not say its name")


def named(text: str) -> Mpi:
    """What a user calls it: a flavour, perhaps with its version and the netmods of an MPICH, as in ``mpich 4.1
    ofi,ucx``. Without a version it is the newest. ValueError if that is none."""
    flavour, *rest = text.lower().split() or [""]
    if flavour not in TITLES:
        raise ValueError(f"{text!r} is no MPI that is known; there are {', '.join(sorted(TITLES))}")
    version = rest[0] if rest else "9999"
    if not re.fullmatch(r"\d+(\.\d+)*", version) or len(rest) > 2:
        raise ValueError(
            f"{text!r} is no MPI; say {flavour}, or {flavour} and its version, as in '{flavour} 4.1'"
        )
    return Mpi(flavour, _version(version), tuple(rest[1].split(",")) if len(rest) > 1 else ())


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split(".") if part)


class LaunchWay(NamedTuple):
    """How ranks that load an MPI of this flavour are launched: ``dialect`` is a name in ``live/node/dialects.py``.

    It is for versions from ``since`` on, and up to ``before``; with a ``netmod`` for those that have it, where the user
    does not want another. ``keeps`` says why such jobs keep the size that they are started with; nothing if they can be
    resized. With a ``refused`` they cannot be started at all, and this is why. ``test`` shows it. ``library`` is the
    variable that tells the launcher which file the program loads. ``rigid`` is the dialect of jobs with one world, if
    that is another.
    """

    flavour: str
    since: Version
    before: Version
    netmod: str
    dialect: str
    keeps: str
    test: str
    refused: str = ""
    library: str = ""
    rigid: str = ""

    def dialect_of(self, *, one_world: bool) -> str:
        return self.rigid if one_world and self.rigid else self.dialect

    def is_for(self, mpi: Mpi, environ: Mapping[str, str]) -> bool:
        """Whether it is the way of this library, for a job with this environment."""
        return (
            self.flavour == mpi.flavour
            and self.since <= mpi.version < self.before
            and (
                not self.netmod
                or (
                    (not mpi.netmods or self.netmod in mpi.netmods)
                    and (environ.get(NETMOD) or self.netmod) == self.netmod
                )
            )
        )


LAST: Version = (1 << 30,)
PORTS = "MPI_Open_port is not supported"
APART = "its groups do not find each other yet"
RESIZES, RIGID = "tests/live/test_resizes.py", "tests/live/test_worlds.py"
WAYS = (
    LaunchWay(MPICH, (4, 3), LAST, "ucx", "pmi1", "", RESIZES),
    LaunchWay(MPICH, (4,), LAST, "ofi", "pmi1-ofi", "", RESIZES),
    LaunchWay(MPICH, (4,), LAST, "", "pmi1", f"{PORTS} before 4.3 but with its netmod ofi", RIGID),
    LaunchWay(MPICH, (), (4,), "ucx", "pmi1", f"{PORTS} before 4.0", RIGID),
    LaunchWay(MPICH, (), (4,), "", "pmi1-ofi", f"{PORTS} before 4.0", RIGID),
    LaunchWay(INTEL, (2021,), LAST, "", "intel", "", RESIZES, rigid="intel-rigid"),
    LaunchWay(INTEL, (), (2021,), "", "pmi1", "older than 2021, which is the first that was tried", ""),
    LaunchWay(OPEN, (5, 0, 8), LAST, "", "openmpi", "", RESIZES, library="PLIANT_LIBMPI"),
    LaunchWay(
        OPEN, (), (5, 0, 8), "", "", "", "", "Open MPI before 5.0.8 has not been tried; 5.0.8 and later is launched"
    ),
    LaunchWay(OTHER, (), LAST, "", "pmi1", "nobody has tried to resize jobs with it", ""),
)  # fmt: skip
UNKNOWN = WAYS[0]
"""Of a job of which nobody could tell: what Pliant brings."""


def way_of(mpi: Mpi, environ: Mapping[str, str]) -> LaunchWay:
    """The first row of the table that is for it."""
    return next(way for way in WAYS if way.is_for(mpi, environ))
