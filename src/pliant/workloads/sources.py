"""Workloads by what a user writes: a file, or a generator with its options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.core.settings import Settings, batch_settings, most_mb, patient
from pliant.files.batch import read_batch_file
from pliant.files.policy import NOTHING_SAID, PolicySpec
from pliant.history.energy import Power
from pliant.model.bookings import Booking
from pliant.model.errors import BatchError, TraceError
from pliant.model.jobs import JobClass, JobSpec
from pliant.model.keys import LARGEST, keyed
from pliant.model.limits import GENERATED_JOBS, MOST_NODES, whole
from pliant.model.need import Pool
from pliant.model.words import count
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.order import ORDERS
from pliant.workloads.bookings import check_booked
from pliant.workloads.data import LOGNORMAL, MEMORY, NONE, with_data
from pliant.workloads.estimates import EXACT, REQUESTED, with_beliefs, with_estimates
from pliant.workloads.failures import Failures
from pliant.workloads.formats.batches import batch_jobs
from pliant.workloads.formats.elastisim import read_elastisim
from pliant.workloads.formats.foreign import foreign
from pliant.workloads.formats.journals import read_journal
from pliant.workloads.formats.opening import opened
from pliant.workloads.formats.simgrid import Speeds
from pliant.workloads.formats.swf import SwfTrace, read_swf, rigid_jobs
from pliant.workloads.generators import paper2, paper3
from pliant.workloads.generators.feitelson import LOAD, UNIT_S, ArrivalPace, feitelson_jobs
from pliant.workloads.generators.lublin import FITTED_NODES, lublin_jobs
from pliant.workloads.job import SimJob, without
from pliant.workloads.machine import Checkpoints
from pliant.workloads.malleability import PUBLISHED, USUAL, Conversion, make_malleable
from pliant.workloads.partitions import (
    Partitions,
    assigned,
    at_speed,
    by_partition,
    check_named,
    in_time,
    unfit,
)
from pliant.workloads.unmapped import Unmapped, listed
from pliant.workloads.windows import Window, cut_out, cuts

FORMS = (
    "a trace in SWF (.swf; also .gz, .bz2, .xz), a batch (.toml), ElastiSim's jobs or configuration (.json), the "
    "journal of a live run (.ndjson), or a generator: lublin:JOBS, "
    "feitelson:JOBS, paper2:SEED or paper3:JOBS, with options as in lublin:10000,load=0.8 "
    "(lublin: load, kinds=1|2; feitelson: load, gap, unit; paper2: window; paper3: seed)"
)


BATCH = ".toml"
ELASTISIM = ".json"
JOURNAL = ".ndjson"
SWF = (".swf", ".txt")
FEW = 5


class Workload(NamedTuple):
    """What is to be simulated; ``starting`` as for the simulator. ``own`` is the policy that it says itself, as
    a batch does, ``fixed`` says that no seed changes the jobs, and ``left_out`` how many of a trace did not run.
    ``hurried``: it states itself how long resizes may take.
    ``too_wide`` were left out too: they need more nodes than there are. ``began`` is what time 0 is, in seconds since
    1970, None if nobody knows. The jobs from the first to before the last of ``counted`` are those that count; all, if
    that is None. ``unmapped`` is what it has that is not
    simulated.
    """

    jobs: list[SimJob]
    nodes: int
    settings: Settings
    starting: bool
    own: PolicySpec = NOTHING_SAID
    fixed: bool = True
    failures: Failures | None = None
    left_out: int = 0
    hurried: bool = False
    too_wide: Sequence[JobSpec] = ()
    checkpoints: Checkpoints | None = None
    partitions: Partitions | None = None
    too_long: Sequence[JobSpec] = ()
    bookings: Sequence[Booking] = ()
    power: Power | None = None
    unmapped: Sequence[Unmapped] = ()
    began: float | None = None
    counted: tuple[int, int] | None = None
    warm_s: float = math.inf
    """So long is simulated before the first job that counts, if something was cut off before that."""
    drawn: bool = False
    """Another seed has other jobs, whatever else it changes."""
    submitted: int = 0
    """Jobs in all, before any were left out or cut off."""

    @property
    def counts(self) -> Sequence[SimJob]:
        """The jobs that count."""
        return self.jobs if self.counted is None else self.jobs[slice(*self.counted)]

    @property
    def note(self) -> str:
        """What is not simulated, and what was done instead, a line each; and which jobs are too wide, the first of them
        by name. Empty if nothing is amiss."""
        both = [_not_simulated(self.unmapped)] if self.unmapped else []
        if self.too_wide or self.too_long:
            both.append(self._left_out())
        return "\n".join(both)

    def _left_out(self) -> str:
        if self.partitions is not None:
            return unfit(self.too_wide, self.too_long, self.submitted)
        first = ", ".join(f"{spec.name} ({spec.nodes.min:,})" for spec in self.too_wide[:FEW])
        more = ", ..." if len(self.too_wide) > FEW else ""
        return (
            f"left out {len(self.too_wide):,} of {count(self.submitted, 'job')}, too wide for "
            f"{count(self.nodes, 'node')}: {first}{more}"
        )


def _not_simulated(rows: Sequence[Unmapped]) -> str:
    things = "1 thing is" if len(rows) == 1 else f"{len(rows)} things are"
    return f"{things} not simulated as it is meant:{listed(rows)}"


class Overrides(NamedTuple):
    """Settings that the user wants whatever the workload says; None leaves them alone."""

    pass_interval_s: float | None = None
    cooldown_s: float | None = None
    offer_deadline_s: float | None = None
    resize_deadline_s: float | None = None
    cost: ResizeCost | None = None

    def settings(self, settings: Settings) -> Settings:
        stated = {name: value for name, value in self._asdict().items() if value is not None}
        return msgspec.structs.replace(settings, **stated)


class WorkloadRequest(NamedTuple):
    """What the user asks of a workload beside its name ``text``, or beside ``jobs``, which a program gives.

    ``nodes`` 0 stands for what the workload says. ``percent`` of rigid jobs are made malleable by ``conversion``, or
    if ``compat`` in the published form, with its bounds; None leaves all as they are. ``speeds`` are for ElastiSim's
    jobs.
    ``run`` counts the runs of a study: each has the next seed, and of Finnerty et al.'s batches the next.
    ``strict``: a job that is too wide for the machine is an error, as it always is in a batch; else it is left out.
    So is then what a workload has that is not simulated.
    ``dependencies``: jobs of a trace wait for those that they follow. ``data`` is what jobs have to move at a resize.
    ``window``: what of it is simulated and counted, and with several windows which, from 0, is ``cut``.
    ``pool``: nodes come and go. ``partitions``: the machine has these. ``bookings``: nodes are reserved in advance.
    """

    text: str
    nodes: int = 0
    seed: int = 42
    rigid: bool = False
    percent: float | None = None
    compat: bool = False
    conversion: Conversion = USUAL
    estimates: str = REQUESTED
    belief: str = EXACT
    speeds: Speeds = Speeds()
    run: int = 0
    overrides: Overrides = Overrides()
    failures: Failures | None = None
    jobs: Sequence[SimJob] | None = None
    pool: Pool | None = None
    strict: bool = False
    dependencies: bool = False
    checkpoints: Checkpoints | None = None
    window: Window | None = None
    cut: int = 0
    data: str = NONE
    power: Power | None = None
    partitions: Partitions | None = None
    bookings: Sequence[Booking] = ()


def read_workload(wish: WorkloadRequest) -> Workload:
    """The workload; BatchError or TraceError says what is wrong with it."""
    name, colon, rest = wish.text.partition(":")
    if wish.dependencies and not _is_trace(wish):
        raise BatchError("--dependencies changes nothing without a trace in SWF")
    if wish.speeds != Speeds() and not wish.text.endswith(ELASTISIM):
        raise BatchError(
            "--platform, --node-flops, --pfs-read, --pfs-write and --link are for ElastiSim's jobs (.json)"
        )
    if wish.data == MEMORY and not _is_trace(wish):
        raise BatchError(f"--data {MEMORY}: only a trace in SWF says how much memory jobs have")
    _check_size(wish.nodes, "--nodes")
    if wish.jobs is not None:
        load = _given(wish.jobs, wish)
    else:
        load = _generated(name, rest, wish) if colon and name in GENERATORS else _from_file(wish)
    _check_size(load.nodes, wish.text)
    jobs = (
        [msgspec.structs.replace(job, spec=job.spec.rigid()) for job in load.jobs]
        if wish.rigid
        else load.jobs
    )
    partitions = wish.partitions
    if not _is_trace(wish):
        check_named(jobs, partitions, wish.text)
    jobs = assigned(jobs, partitions, wish.text)
    too_wide: list[JobSpec] = []
    leaves_out = not wish.strict and not wish.text.endswith(BATCH)
    if leaves_out:
        jobs, too_wide = _fitting(jobs, load.nodes, wish.text, partitions)
    seed = wish.seed + wish.run
    jobs = with_data(with_estimates(jobs, wish.estimates, seed), wish.data, seed)
    if wish.percent is not None and name not in OWN_SHARES:
        jobs = _malleable(jobs, wish.percent, load.nodes, seed, wish)
    jobs = with_beliefs(jobs, wish.belief, seed)
    too_long: list[JobSpec] = []
    if partitions is not None:
        jobs = by_partition(jobs, partitions, at_speed)
        jobs, too_long = in_time(jobs, partitions, wish.text, leaves_out=leaves_out)
    failures = wish.failures.seeded(wish.seed, wish.run) if wish.failures is not None else None
    settings = _settings(load, jobs, wish)
    if wish.data != NONE:
        _check_data(jobs, settings, wish)
    check_booked(wish.bookings, jobs, load.nodes, partitions)
    load = load._replace(
        jobs=jobs,
        fixed=_fixed(load, wish, failures),
        settings=settings,
        failures=failures,
        too_wide=too_wide,
        checkpoints=wish.checkpoints,
        partitions=partitions,
        too_long=too_long,
        bookings=wish.bookings,
        power=wish.power,
        drawn=not load.fixed,
        submitted=len(jobs) + len(too_wide) + len(too_long),
    )
    return load if wish.window is None else _windowed(load, wish, wish.window)


def _fixed(load: Workload, wish: WorkloadRequest, failures: Failures | None) -> bool:
    """Whether no seed changes anything."""
    drawn = ":" in wish.estimates + wish.belief or wish.data.startswith(LOGNORMAL)
    if failures is not None and failures.drawn is not None:
        drawn = True
    return load.fixed and not drawn and wish.percent in (None, 0, 100)


def _settings(load: Workload, jobs: Sequence[SimJob], wish: WorkloadRequest) -> Settings:
    """Those of the workload with what the user wants. No resize is called off before it has taken what it takes."""
    settings = msgspec.structs.replace(wish.overrides.settings(load.settings), pool=wish.pool)
    if wish.overrides.resize_deadline_s is not None or load.hurried:
        return settings
    boot_s = wish.power.boot_s if wish.power is not None else 0.0
    settings = patient(settings, load.nodes, most_mb(job.spec for job in jobs), _longest_s(jobs) + boot_s)
    if not settings.resize_deadline_s < LARGEST:
        raise BatchError(
            f"{wish.text}: no resize with the most data would ever end; give a lower --cost or less --data"
        )
    return settings


def _windowed(load: Workload, wish: WorkloadRequest, window: Window) -> Workload:
    """What of the workload is in the window, with the jobs before and after it."""
    jobs = sorted(load.jobs, key=attrgetter("spec.submit_s"))
    cut = cuts(jobs, window, wish.text, load.began)[wish.cut]
    counted = (cut.begin - cut.low, cut.end - cut.low)
    warm_s = jobs[cut.begin].spec.submit_s - jobs[cut.low].spec.submit_s if cut.low else math.inf
    return load._replace(jobs=cut_out(jobs, cut), counted=counted, warm_s=warm_s)


def _longest_s(jobs: Sequence[SimJob]) -> float:
    """What jobs themselves do at a resize takes no longer."""
    return max(
        (job.adapting.longest_s(job.spec.nodes) for job in jobs if job.adapting is not None), default=0.0
    )


def _malleable(
    jobs: list[SimJob], percent: float, nodes: int, seed: int, wish: WorkloadRequest
) -> list[SimJob]:
    """``percent`` of them made malleable, each for the machine, or the partition, that it runs on."""

    def made(jobs: list[SimJob], nodes: int) -> list[SimJob]:
        conversion = PUBLISHED if wish.compat else wish.conversion
        return make_malleable(jobs, percent, nodes, seed, conversion=conversion, compat=wish.compat)

    if wish.partitions is None:
        return made(jobs, nodes)
    return by_partition(jobs, wish.partitions, lambda some, partition: made(some, partition.nodes))


def _fitting(
    jobs: list[SimJob], nodes: int, text: str, partitions: Partitions | None
) -> tuple[list[SimJob], list[JobSpec]]:
    """The jobs that can start on ``nodes`` nodes, or on those of their partitions, and the others. TraceError if none
    can."""
    room = {} if partitions is None else {each.name: each.nodes for each in partitions.each}
    too_wide = [job.spec for job in jobs if job.spec.nodes.min > room.get(str(job.spec.partition), nodes)]
    if not jobs or len(too_wide) < len(jobs):
        return without(jobs, too_wide), too_wide
    least = min(spec.nodes.min for spec in too_wide)
    where = f"on {count(nodes, 'node')}" if partitions is None else "in its partition"
    raise TraceError(
        f"{text}: none of its jobs ({len(jobs):,}) fits {where}: the narrowest needs {least:,}; "
        f"give more by {'--nodes' if partitions is None else '--partitions'}"
    )


def _check_data(jobs: Sequence[SimJob], settings: Settings, wish: WorkloadRequest) -> None:
    """BatchError if no resize can cost anything by the data of ``jobs``."""
    if not settings.cost.data_s:
        raise BatchError(
            f"--data {wish.data} changes nothing where data move in no time; say how long a megabyte takes, as in "
            "--cost data_s=0.01, or by a file of pliant calibrate"
        )
    resized = (JobClass.MALLEABLE, JobClass.EVOLVING)
    if wish.percent is None and not any(job.spec.job_class in resized for job in jobs):
        raise BatchError(f"--data {wish.data} changes nothing where no job is resized; give --malleable")


def _check_size(nodes: int, where: str) -> None:
    if nodes > MOST_NODES:
        raise BatchError(f"{where}: {nodes:,} nodes are too many to simulate; the most is {MOST_NODES:,}")


def _given(jobs: Sequence[SimJob], wish: WorkloadRequest) -> Workload:
    """As for a trace, resizes take no time if nobody says so."""
    if not wish.nodes:
        raise BatchError(f"{wish.text}: they do not say how large the machine is; give nodes")
    return Workload(list(jobs), wish.nodes, Settings(cost=INSTANT), starting=False)


def _is_trace(wish: WorkloadRequest) -> bool:
    return wish.jobs is None and _named_swf(Path(wish.text))


def _from_file(wish: WorkloadRequest) -> Workload:
    file = Path(wish.text)
    if file.suffix == BATCH:
        batch = read_batch_file(file) if wish.partitions is None else read_batch_file(file, wish.nodes)
        cluster = batch.cluster
        return Workload(
            batch_jobs(batch),
            wish.nodes or cluster.nodes,
            batch_settings(cluster),
            starting=True,
            own=PolicySpec.of(cluster),
            hurried=cluster.resize_deadline_s is not None,
        )
    if file.suffix == JOURNAL:
        recorded = read_journal(file)
        own = _recorded(recorded.policy)
        return Workload(recorded.jobs, wish.nodes or recorded.nodes, Settings(), starting=True, own=own)
    if file.suffix == ELASTISIM:
        return _elastisim(file, wish)
    if not _named_swf(file):
        raise TraceError(f"{file}: {_other(file)}")
    trace = _trace(file) if wish.window is not None else read_swf(file)
    unmapped = trace.unmapped if wish.nodes else (*trace.doubtful, *trace.unmapped)
    _check_mapped(unmapped, wish)
    nodes = wish.nodes or trace.processors or 0
    if not nodes:
        raise BatchError(f"{file}: its header does not say how large the machine is; give --nodes")
    told = {} if wish.partitions is None else {"partition_of": wish.partitions.of_trace}
    jobs = rigid_jobs(
        trace,
        nodes if wish.strict else None,
        dependencies=wish.dependencies,
        memory=wish.data == MEMORY,
        **told,
    )
    if wish.dependencies and not any(job.after for job in jobs):
        raise BatchError(f"{file}: --dependencies changes nothing: no job follows another (field 17)")
    if wish.data == MEMORY and not any(job.spec.data_mb for job in jobs):
        raise BatchError(f"{file}: --data {MEMORY}: no job says how much memory it has (fields 7 and 10)")
    left_out = len(trace.jobs) - len(jobs)
    return Workload(
        jobs,
        nodes,
        Settings(cost=INSTANT),
        starting=False,
        left_out=left_out,
        unmapped=unmapped,
        began=trace.began,
    )


def _named_swf(file: Path) -> bool:
    return bool(set(SWF) & {suffix.lower() for suffix in file.suffixes})


def _other(file: Path) -> str:
    """Name a file whose name is not that of a workload."""
    what = ""
    if file.is_file():
        with opened(file) as (_, begins):
            what = foreign(begins)
    return what or f"neither {FORMS}"


def _trace(file: Path) -> SwfTrace:
    """That of ``read_swf``: the last is kept, as several windows of one trace are read one after the other."""
    try:
        now = file.stat()
    except OSError:
        return read_swf(file)  # which says what is wrong
    return _kept(file, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=1)
def _kept(file: Path, _changed: int, _size: int) -> SwfTrace:
    return read_swf(file)


def _check_mapped(unmapped: Sequence[Unmapped], wish: WorkloadRequest) -> None:
    if unmapped and wish.strict:
        raise TraceError(
            f"{wish.text}: {_not_simulated(unmapped)}\nWithout --strict it is simulated like that."
        )


def _elastisim(file: Path, wish: WorkloadRequest) -> Workload:
    jobs, nodes, unmapped = read_elastisim(file, wish.speeds)
    _check_mapped(unmapped, wish)
    if not (nodes := wish.nodes or nodes):
        raise BatchError(f"{file}: it does not say how large the machine is; give --nodes, or --platform")
    return Workload(jobs, nodes, Settings(cost=INSTANT), starting=False, unmapped=unmapped)


def _recorded(policy: str) -> PolicySpec:
    """A policy by the name that a journal gives it: one with another order of its queue says so."""
    name, by, order = policy.rpartition(" by ")
    return PolicySpec(name, order=order) if by and order in ORDERS else PolicySpec(policy)


def _generated(name: str, text: str, wish: WorkloadRequest) -> Workload:
    """``text`` is NUMBER[,OPTION=VALUE...]."""
    first, comma, others = text.partition(",")
    number = whole(first)
    if number is None:
        raise BatchError(f"{wish.text}: {first!r} is no whole number; write {name}:NUMBER")
    if number > GENERATED_JOBS and name != "paper2":  # whose number is a seed
        raise BatchError(f"{wish.text}: {number:,} is too many; the most is {GENERATED_JOBS:,}")
    known = OPTIONS[name]
    options = dict(known)
    form = f"{name}:NUMBER,{','.join(f'{key}=VALUE' for key in known)}"
    said = keyed(others, dict.fromkeys(known, False), f"{wish.text}: {name}:", form) if comma else {}
    for key, value in said.items():
        try:
            options[key] = float(value)
        except ValueError:
            raise BatchError(f"{wish.text}: {key}: {value!r} is no number") from None
        least = -1.0 if key == "seed" else 0.0
        if not least < (options[key] or 0) < math.inf:
            raise BatchError(f"{wish.text}: {key}: it must be above 0")
    return GENERATORS[name](number, options, wish)


def _lublin(count: int, options: dict[str, float | None], wish: WorkloadRequest) -> Workload:
    nodes = wish.nodes or FITTED_NODES
    if options["kinds"] not in (1, 2):
        raise BatchError(f"{wish.text}: kinds: {options['kinds']:g}; there are 1 and 2")
    jobs = lublin_jobs(
        count, nodes, wish.seed + wish.run, one_kind=options["kinds"] == 1, load=options["load"]
    )
    return Workload(jobs, nodes, Settings(cost=INSTANT), starting=False, fixed=False)


def _feitelson(count: int, options: dict[str, float | None], wish: WorkloadRequest) -> Workload:
    nodes = wish.nodes or FITTED_NODES
    pace = ArrivalPace(options["unit"] or UNIT_S, options["load"] or LOAD, options["gap"])
    jobs = feitelson_jobs(count, nodes, wish.seed + wish.run, pace)
    return Workload(jobs, nodes, Settings(cost=INSTANT), starting=False, fixed=False)


def _paper2(number: int, options: dict[str, float | None], wish: WorkloadRequest) -> Workload:
    window_s = int(options["window"] or paper2.WINDOW_S)
    jobs = paper2.paper2_jobs(number + wish.run, int(wish.percent or 0), window_s=window_s)
    return Workload(jobs, wish.nodes or paper2.NODES, paper2.paper2_settings(), starting=False, fixed=False)


def _paper3(count: int, options: dict[str, float | None], wish: WorkloadRequest) -> Workload:
    """The programs' order is the calibrated one, unless the user names another seed by ``seed``."""
    if wish.percent not in (None, 0, 100):
        raise BatchError(
            f"{wish.text}: {wish.percent:g} % of malleable jobs; its jobs are all fixed (0) or all flexible (100)"
        )
    seed = int(options["seed"] or paper3.SEED) + wish.run
    jobs = paper3.paper3_jobs(count, seed, flexible=wish.percent == 100)
    return Workload(jobs, wish.nodes or paper3.NODES, paper3.paper3_settings(), starting=False, fixed=False)


OWN_SHARES = ("paper2", "paper3")
"""Generators that make their jobs malleable themselves."""
GENERATORS: dict[str, Callable[[int, dict[str, float | None], WorkloadRequest], Workload]] = {
    "lublin": _lublin,
    "feitelson": _feitelson,
    "paper2": _paper2,
    "paper3": _paper3,
}
OPTIONS: dict[str, dict[str, float | None]] = {
    "lublin": {"load": None, "kinds": 2},
    "feitelson": {"load": LOAD, "gap": None, "unit": UNIT_S},
    "paper2": {"window": paper2.WINDOW_S},
    "paper3": {"seed": paper3.SEED},
}
