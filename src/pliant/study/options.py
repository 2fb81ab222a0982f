"""What a user asks of a simulation, on the command line or in a program: checked, and read where it names a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from pliant.files.cost import read_cost
from pliant.files.external import is_external
from pliant.files.policy import PolicySpec
from pliant.model.errors import BatchError
from pliant.model.keys import LARGEST
from pliant.model.nearest import nearest
from pliant.model.words import count
from pliant.policy.order import HALF_LIFE_S
from pliant.sim.instant import Instant
from pliant.study.grid import Against, Grid
from pliant.workloads.beliefs import EXACT
from pliant.workloads.bookings import bookings_of, read_bookings
from pliant.workloads.checkpoints import read_checkpoints
from pliant.workloads.data import NONE
from pliant.workloads.elastic import read_pool
from pliant.workloads.estimates import REQUESTED
from pliant.workloads.failures import Failures, read_failures
from pliant.workloads.formats.simgrid import Speeds
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import USUAL, Conversion, read_conversion
from pliant.workloads.partitions import partitions_of, read_partitions
from pliant.workloads.power import read_power
from pliant.workloads.sources import OWN_SHARES, Overrides, Wish
from pliant.workloads.windows import read_window

LEAST = {
    "nodes": 0,
    "seed": 0,
    "malleable": 0.0,
    "node-flops": 1.0,
    "pfs-read": 1.0,
    "pfs-write": 1.0,
    "link": 1.0,
    "pass-interval": 0.0,
    "cooldown": 0.0,
    "offer-deadline": 0.001,
    "resize-deadline": 0.001,
    "half-life": 1.0,
}
"""Of each number that an option takes."""


Described = str | os.PathLike[str] | Sequence[Mapping[str, Any]]
"""A file by its name, or tables with its keys."""


def asked(  # noqa: PLR0913 -- as many as the command has options
    workload: str,
    nodes: int = 0,
    *,
    jobs: Sequence[SimJob] | None = None,
    malleable: float | None = None,
    compat: bool = False,
    conversion: str = "",
    rigid: bool = False,
    seed: int = 42,
    estimates: str = REQUESTED,
    belief: str = EXACT,
    platform: str | os.PathLike[str] = "",
    node_flops: float | None = None,
    pfs_read: float | None = None,
    pfs_write: float | None = None,
    link: float | None = None,
    pass_interval_s: float | None = None,
    cooldown_s: float | None = None,
    offer_deadline_s: float | None = None,
    resize_deadline_s: float | None = None,
    cost: str = "",
    data: str = NONE,
    failures: str = "",
    requeue: bool = True,
    checkpoint: str = "",
    energy: str = "",
    elastic: str = "",
    strict: bool = False,
    dependencies: bool = False,
    window: str = "",
    warm_up: str = "",
    partitions: Described = "",
    reservations: Described = "",
) -> Wish:
    """The options of ``pliant simulate`` as a wish; ``jobs`` are given in place of a ``workload`` that is read. Raises
    BatchError, which names the option."""
    if malleable is not None and _real(malleable, "malleable", "percentage") > 100:
        raise BatchError(f"--malleable: {malleable} is no percentage")
    for option, text in (
        ("conversion", conversion),
        ("estimates", estimates),
        ("belief", belief),
        ("cost", cost),
        ("data", data),
        ("failures", failures),
        ("checkpoint", checkpoint),
        ("window", window),
        ("warm-up", warm_up),
        ("platform", platform := os.fspath(platform) if isinstance(platform, os.PathLike) else platform),
        ("energy", energy),
        ("elastic", elastic),
    ):
        _check_text(text, option)
    overrides = Overrides(
        _seconds(pass_interval_s, "pass-interval"),
        _seconds(cooldown_s, "cooldown"),
        _seconds(offer_deadline_s, "offer-deadline"),
        _seconds(resize_deadline_s, "resize-deadline"),
        read_cost(cost) if cost else None,
    )
    wish = Wish(
        workload,
        _whole(nodes, "nodes"),
        _whole(seed, "seed"),
        rigid,
        percent=malleable,
        compat=compat,
        conversion=_conversion(conversion, workload, malleable, compat=compat),
        estimates=estimates,
        belief=belief,
        speeds=Speeds(
            platform,
            None if node_flops is None else _real(node_flops, "node-flops", "number of FLOP/s"),
            *(
                None if speed is None else _real(speed, option, "number of bytes a second")
                for option, speed in (("pfs-read", pfs_read), ("pfs-write", pfs_write), ("link", link))
            ),
        ),
        overrides=overrides,
        failures=_failures(failures, requeue=requeue),
        jobs=jobs,
        strict=strict,
        dependencies=dependencies,
        checkpoints=read_checkpoints(checkpoint) if checkpoint else None,
        window=read_window(window, warm_up),
        data=data or NONE,
        power=read_power(energy) if energy else None,
    )
    if energy and partitions:
        raise BatchError(
            "--energy: it is not known of --partitions, whose simulations end at different times"
        )
    if elastic:
        beside = {
            "--failures": failures, "--energy": energy, "--partitions": partitions, "--reservations": reservations
        }  # fmt: skip
        wish = _with_pool(wish, elastic, [option for option, said in beside.items() if said])
    if partitions:
        wish = _with_partitions(wish, partitions)
    if reservations:
        wish = _with_reservations(wish, reservations)
    if compat and malleable is None:
        raise BatchError("--compat changes nothing without --malleable")
    if compat:
        _check_converted(workload, "compat")
    return wish


def _with_reservations(wish: Wish, said: Described) -> Wish:
    if wish.failures is not None:
        raise BatchError(
            "--reservations and --failures: a policy cannot tell nodes that have failed from those that are reserved; "
            "give one of the two"
        )
    bookings = read_bookings(Path(said)) if isinstance(said, str | os.PathLike) else bookings_of(said)
    return wish._replace(bookings=bookings)


NOT_ELASTIC = {
    "--failures": "failures are drawn for fixed nodes, and of these numbers each stands for many that come and go",
    "--energy": "nobody says what a node draws that is not there",
    "--partitions": "the limits are of one machine, and each partition is one",
    "--reservations": "they are of nodes that are there, and no policy asks for some to keep",
}
"""What each of these supposes of the nodes."""


def _with_pool(wish: Wish, said: str, beside: Sequence[str]) -> Wish:
    """On a machine whose nodes come and go."""
    if beside:
        raise BatchError(
            f"--elastic and {beside[0]}: not simulated together, as {NOT_ELASTIC[beside[0]]}; leave out one of them"
        )
    pool = read_pool(said)
    if wish.nodes not in (0, pool.max):
        raise BatchError(
            f"--nodes {wish.nodes}: --elastic says that there are at most {pool.max}; leave out --nodes"
        )
    return wish._replace(nodes=pool.max, pool=pool)


def _with_partitions(wish: Wish, said: Described) -> Wish:
    """On a machine of these partitions, which a file describes or a program."""
    partitions = read_partitions(Path(said)) if isinstance(said, str | os.PathLike) else partitions_of(said)
    if wish.nodes not in (0, partitions.nodes):
        raise BatchError(
            f"--nodes {wish.nodes}: the partitions have {count(partitions.nodes, 'node')} together, as they share "
            "none; leave out --nodes"
        )
    return wish._replace(nodes=partitions.nodes, partitions=partitions)


def queue_said(
    workload: str,
    start: str = "",
    order: str = "",
    weights: Mapping[str, float] | None = None,
    half_life_s: float = HALF_LIFE_S,
) -> PolicySpec:
    """What is said of a policy beside its name. Raises BatchError."""
    _check_text(start, "start")
    _check_text(order, "order")
    _check_weights({} if weights is None else weights)
    if weights and order not in ("fairshare", "weight") and (order or not workload.endswith(".toml")):
        raise BatchError("--weight changes nothing without --order fairshare or --order weight")
    half_life_s = _real(half_life_s, "half-life", "number of seconds")
    if half_life_s != HALF_LIFE_S and order != "fairshare" and (order or not workload.endswith(".toml")):
        raise BatchError("--half-life changes nothing without --order fairshare")
    return PolicySpec("", start or None, order or None, weights or {}, half_life_s)


def _check_weights(weights: object) -> None:
    if not isinstance(weights, Mapping):
        raise BatchError(f"--weight: {weights!r} is no mapping of users to their weights, as in {{'ann': 2}}")
    for user, weight in weights.items():
        number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not number or weight <= 0 or not weight < LARGEST:
            raise BatchError(f"--weight: {user}: {weight!r} is no weight above 0")


def instant_said(text: str) -> Instant:
    """The order of events of one instant; BatchError."""
    known = [each.value for each in Instant]
    if text not in known:
        raise BatchError(f"--instant: there is no {text!r}{nearest(str(text), known)}")
    return Instant(text)


def against_said(text: str, grid: Grid) -> Grid:
    """The grid with what its rows are compared with: ``easy``, ``easy@0`` or ``@0``. BatchError if it has no such row,
    or if there is nothing to compare."""
    if (text or grid.by) and len(grid.rows) < 2:
        raise BatchError(
            f"{'--against' if text else '--by'}: nothing is compared; name two policies, or two percentages of "
            "malleable jobs"
        )
    if not text:
        return grid
    name, at, share = text.rpartition("@") if "@" in text else (text, "", "")
    shares = list(grid.percents or ())
    policy = _policy_of(name, text, grid) if name else None
    percent = next((each for each in shares if share.strip() in (f"{each:g}", str(each))), None)
    if at and percent is None:
        known = ", ".join(f"{each:g}" for each in shares) or "none"
        raise BatchError(
            f"--against {text}: {share!r} is none of the percentages of --malleable (known: {known})"
        )
    grid = grid._replace(against=Against(policy, percent))
    if all(grid.beside(row) == row for row in range(len(grid.rows))):
        # Either there is one policy, and each row has its own percentage, or one percentage, and each its own policy.
        other = f"{name or grid.policies[0].name}@{shares[0]:g}"
        raise BatchError(
            f"--against {text}: nothing is compared, as each row would be with itself; write {other}, or leave it out"
        )
    return grid


def _policy_of(name: str, text: str, grid: Grid) -> int:
    """Which of the policies is meant: as the user named it, or as it is called in tables."""
    names = [each.name for each in grid.policies]
    called = names
    if name not in names:
        called = [
            each if is_external(each) else spec.make().name
            for each, spec in zip(names, grid.policies, strict=True)
        ]
    found = [i for i, each in enumerate(called) if each == name]
    if len(found) > 1:
        raise BatchError(f"--against {text}: several of the policies are called {name!r}")
    if not found:
        raise BatchError(f"--against {text}: {name!r} is none of the policies{nearest(name, names)}")
    return found[0]


def whole_said(value: object, option: str, least: int) -> int:
    """A whole number of whatever library; BatchError."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise BatchError(f"--{option}: {value!r} is no whole number of {least} or more")
    return int(value)


def _seconds(value: float | None, option: str) -> float | None:
    return None if value is None else _real(value, option, "number of seconds")


def _whole(value: object, option: str) -> int:
    if not isinstance(value, Integral):
        raise BatchError(f"--{option}: {value!r} is no whole number")
    return int(_real(value, option, "whole number"))


def _real(value: object, option: str, what: str) -> float:
    """Of whatever library the number is."""
    if isinstance(value, bool) or not isinstance(value, Real) or not value < LARGEST:
        raise BatchError(f"--{option}: {value if isinstance(value, Real) else repr(value)} is no {what}")
    if value < LEAST[option]:
        raise BatchError(f"--{option}: {value} is too little; the least is {LEAST[option]:g}")
    return float(value)


def _conversion(text: str, workload: str, malleable: float | None, *, compat: bool) -> Conversion:
    if not text:
        return USUAL
    if compat:
        raise BatchError("--compat has the published conversion; leave out --conversion")
    if malleable is None:
        raise BatchError("--conversion changes nothing without --malleable")
    _check_converted(workload, "conversion")
    return read_conversion(text)


def _check_converted(workload: str, option: str) -> None:
    if (name := workload.partition(":")[0]) in OWN_SHARES:
        raise BatchError(f"--{option} changes nothing for {name}, which makes its jobs malleable itself")


def _check_text(value: object, option: str) -> None:
    if not isinstance(value, str):
        raise BatchError(f"--{option}: {value!r} is no text")


def _failures(text: str, *, requeue: bool) -> Failures | None:
    if text:
        return read_failures(text, requeue=requeue)
    if not requeue:
        raise BatchError("--no-requeue changes nothing without --failures")
    return None
