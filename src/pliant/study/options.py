"""What a user asks of a simulation, on the command line or in a program: checked, and read where it names a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real

from pliant.files.cost import read_cost
from pliant.files.external import is_external
from pliant.files.policy import PolicySpec
from pliant.model.errors import BatchError
from pliant.model.keys import LARGEST
from pliant.model.words import count, nearest
from pliant.policy.order import HALF_LIFE_S
from pliant.study.grid import Against, Grid
from pliant.study.simulation_request import Described, SimulationRequest
from pliant.workloads.bookings import read_bookings
from pliant.workloads.data import NONE
from pliant.workloads.failures import Failures, read_failures
from pliant.workloads.formats.simgrid import Speeds
from pliant.workloads.job import SimJob
from pliant.workloads.machine import read_checkpoints, read_pool, read_power
from pliant.workloads.malleability import USUAL, Conversion, read_conversion
from pliant.workloads.partitions import read_partitions
from pliant.workloads.sources import OWN_SHARES, Overrides, WorkloadRequest
from pliant.workloads.windows import read_window


def wished(workload: str, asked: SimulationRequest, jobs: Sequence[SimJob] | None = None) -> WorkloadRequest:
    """What is asked of ``workload``, or of the ``jobs`` that a program gives. Raises BatchError, which names the
    option."""
    overrides = Overrides(
        asked.pass_interval_s,
        asked.cooldown_s,
        asked.offer_deadline_s,
        asked.resize_deadline_s,
        read_cost(os.fspath(asked.cost)) if asked.cost else None,
    )
    wish = WorkloadRequest(
        workload,
        asked.nodes,
        asked.seed,
        asked.rigid,
        percent=asked.malleable,
        compat=asked.compat,
        conversion=_conversion(workload, asked),
        estimates=asked.estimates,
        belief=asked.belief,
        speeds=Speeds(
            os.fspath(asked.platform), asked.node_flops, asked.pfs_read, asked.pfs_write, asked.link
        ),
        overrides=overrides,
        failures=_failures(os.fspath(asked.failures), requeue=asked.requeue),
        jobs=jobs,
        strict=asked.strict,
        dependencies=asked.dependencies,
        checkpoints=read_checkpoints(asked.checkpoint) if asked.checkpoint else None,
        window=read_window(asked.window, asked.warm_up),
        data=asked.data or NONE,
        power=read_power(asked.energy) if asked.energy else None,
    )
    if asked.energy and asked.partitions:
        raise BatchError(
            "--energy: it is not known of --partitions, whose simulations end at different times"
        )
    if asked.elastic:
        wish = _with_pool(wish, asked)
    if asked.partitions:
        wish = _with_partitions(wish, asked.partitions)
    if asked.reservations:
        wish = _with_reservations(wish, asked.reservations)
    if asked.compat and asked.malleable is None:
        raise BatchError("--compat changes nothing without --malleable")
    if asked.compat:
        _check_converted(workload, "compat")
    return wish


def _with_reservations(wish: WorkloadRequest, said: Described) -> WorkloadRequest:
    if wish.failures is not None:
        raise BatchError(
            "--reservations and --failures: a policy cannot tell nodes that have failed from those that are reserved; "
            "give one of the two"
        )
    return wish._replace(bookings=read_bookings(said))


NOT_ELASTIC = {
    "failures": "failures are drawn for fixed nodes, and of these numbers each stands for many that come and go",
    "energy": "nobody says what a node draws that is not there",
    "partitions": "the limits are of one machine, and each partition is one",
    "reservations": "they are of nodes that are there, and no policy asks for some to keep",
}
"""What each of these supposes of the nodes."""


def _with_pool(wish: WorkloadRequest, asked: SimulationRequest) -> WorkloadRequest:
    """On a machine whose nodes come and go."""
    for other, why in NOT_ELASTIC.items():
        if getattr(asked, other):
            raise BatchError(
                f"--elastic and --{other}: not simulated together, as {why}; leave out one of them"
            )
    pool = read_pool(asked.elastic)
    if wish.nodes not in (0, pool.max):
        raise BatchError(
            f"--nodes {wish.nodes}: --elastic says that there are at most {pool.max}; leave out --nodes"
        )
    return wish._replace(nodes=pool.max, pool=pool)


def _with_partitions(wish: WorkloadRequest, said: Described) -> WorkloadRequest:
    """On a machine of these partitions, which a file describes or a program."""
    partitions = read_partitions(said)
    if wish.nodes not in (0, partitions.nodes):
        raise BatchError(
            f"--nodes {wish.nodes}: the partitions have {count(partitions.nodes, 'node')} together, as they share "
            "none; leave out --nodes"
        )
    return wish._replace(nodes=partitions.nodes, partitions=partitions)


def queue_said(workload: str, asked: SimulationRequest) -> PolicySpec:
    """What is said of a policy beside its name. Raises BatchError."""
    order, weights, half_life_s = (
        asked.order,
        {} if asked.weights is None else asked.weights,
        asked.half_life_s,
    )
    _check_weights(weights)
    its_own = not order and workload.endswith(".toml")
    if weights and order not in ("fairshare", "weight") and not its_own:
        raise BatchError("--weight changes nothing without --order fairshare or --order weight")
    if half_life_s != HALF_LIFE_S and order != "fairshare" and not its_own:
        raise BatchError("--half-life changes nothing without --order fairshare")
    return PolicySpec("", asked.start or None, order or None, weights, half_life_s)


def _check_weights(weights: object) -> None:
    if not isinstance(weights, Mapping):
        raise BatchError(f"--weight: {weights!r} is no mapping of users to their weights, as in {{'ann': 2}}")
    for user, weight in weights.items():
        number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not number or weight <= 0 or not weight < LARGEST:
            raise BatchError(f"--weight: {user}: {weight!r} is no weight above 0")


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


def _conversion(workload: str, asked: SimulationRequest) -> Conversion:
    if not asked.conversion:
        return USUAL
    if asked.compat:
        raise BatchError("--compat has the published conversion; leave out --conversion")
    if asked.malleable is None:
        raise BatchError("--conversion changes nothing without --malleable")
    _check_converted(workload, "conversion")
    return read_conversion(asked.conversion)


def _check_converted(workload: str, option: str) -> None:
    if (name := workload.partition(":")[0]) in OWN_SHARES:
        raise BatchError(f"--{option} changes nothing for {name}, which makes its jobs malleable itself")


def _failures(text: str, *, requeue: bool) -> Failures | None:
    if text:
        return read_failures(text, requeue=requeue)
    if not requeue:
        raise BatchError("--no-requeue changes nothing without --failures")
    return None
