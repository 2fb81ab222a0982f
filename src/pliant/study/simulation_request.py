"""All that can be asked of a simulation, each once, with its default, help and limit.

``pliant simulate``, ``pliant.simulate`` and ``pliant.compare`` have their options from here.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from pliant.model.errors import BatchError
from pliant.model.keys import LARGEST
from pliant.model.words import nearest
from pliant.policy import registry
from pliant.policy.order import HALF_LIFE_S, ORDERS
from pliant.sim.instant import Instant
from pliant.workloads.data import FORMS, NONE
from pliant.workloads.estimates import EXACT, REQUESTED

F = TypeVar("F", bound=Callable[..., Any])
Described = str | os.PathLike[str] | Sequence[Mapping[str, Any]]
"""A file by its name, or tables with its keys."""
PATHS = (Described, str | os.PathLike[str])
"""The types of options that name files."""


class Option(NamedTuple):
    """How a field is asked for. ``panel`` is the heading under which ``help`` stands. A number is from ``least`` to
    ``most``, and a ``what``."""

    panel: str
    help: str
    least: float | None = None
    what: str = "number of seconds"
    most: float = LARGEST


WORKLOAD = "Workload"
POLICY = "Policy"
MALLEABLE = "Malleable jobs and resizes"
MACHINE = "Machine"
ELASTISIM = "ElastiSim's jobs"
STUDY = "Studies: windows, and what differs"
RATE = "number of bytes a second"


class SimulationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a simulation, beside the workload and the policy. A field ``NAME`` or ``NAME_s`` is the option
    ``--NAME`` of the command."""

    nodes: Annotated[
        int, Option(WORKLOAD, "Nodes of the machine; 0: what the workload says.", 0, "whole number")
    ] = 0
    rigid: Annotated[bool, Option(WORKLOAD, "Fix every job at its preferred size.")] = False
    seed: Annotated[
        int,
        Option(
            WORKLOAD,
            "Seed of generators, of --malleable, --estimates, --belief, --data lognormal and --failures.",
            0,
            "whole number",
        ),
    ] = 42
    estimates: Annotated[
        str,
        Option(WORKLOAD, "Users' estimates: requested, exact, or factor:F (up to F + 1 times too long)."),
    ] = REQUESTED
    strict: Annotated[
        bool,
        Option(
            WORKLOAD,
            "Refuse a workload with a job that needs more nodes than there are, or with what is not simulated.",
        ),
    ] = False
    dependencies: Annotated[
        bool,
        Option(
            WORKLOAD,
            "Submit a trace's job its think time after the job that it follows has ended (SWF's fields 17 and 18).",
        ),
    ] = False

    start: Annotated[
        str,
        Option(
            POLICY,
            f"Start rule of jobs with a choice: {', '.join(registry.START_RULES)}. By preferred a job starts on fewer "
            "nodes where no more are free; by exact it waits for those that it prefers.",
        ),
    ] = ""
    order: Annotated[str, Option(POLICY, f"Queue order: {', '.join(ORDERS)}.")] = ""
    weights: Annotated[
        Mapping[str, float] | None,
        Option(POLICY, "Weights of users by their names, for the orders fairshare and weight."),
    ] = None
    half_life_s: Annotated[float, Option(POLICY, "Seconds in which fairshare's usage halves.", 1.0)] = (
        HALF_LIFE_S
    )
    instant: Annotated[
        Instant,
        Option(
            POLICY,
            "Events of one instant: together, in pyss' order, for its exact waits, or in elastisim's, one by one.",
        ),
    ] = Instant.TOGETHER
    belief: Annotated[
        str,
        Option(
            POLICY,
            "How long policies believe that jobs with a model take: exact, estimate (what users say), or factor:F "
            "(up to F times too long or too short).",
        ),
    ] = EXACT
    pass_interval_s: Annotated[
        float | None,
        Option(POLICY, "Seconds between scheduling passes; 0: one whenever it may matter.", 0.0),
    ] = None

    malleable: Annotated[
        float | None,
        Option(MALLEABLE, "Percentage of rigid jobs to make malleable.", 0.0, "percentage", 100.0),
    ] = None
    compat: Annotated[
        bool,
        Option(
            MALLEABLE,
            "With --malleable: the published conversion, with run times in its longer form.",
        ),
    ] = False
    conversion: Annotated[
        str,
        Option(
            MALLEABLE,
            "With --malleable: the sizes of jobs, as in least=0.5,most=2,serial=rigid (the default: half to twice "
            "their nodes, serial jobs stay rigid; or serial=malleable), or published.",
        ),
    ] = ""
    cooldown_s: Annotated[
        float | None,
        Option(
            MALLEABLE,
            "Least seconds between two resizes of a job; default: the workload's, or 2.",
            0.0,
        ),
    ] = None
    offer_deadline_s: Annotated[
        float | None,
        Option(
            MALLEABLE,
            "Seconds until an offer without answer is withdrawn; in live runs 20.",
            0.001,
        ),
    ] = None
    resize_deadline_s: Annotated[
        float | None,
        Option(
            MALLEABLE,
            "Seconds until an accepted resize that is not done is withdrawn; default: 30, or twice what the largest "
            "costs if that is more.",
            0.001,
        ),
    ] = None
    cost: Annotated[
        str | os.PathLike[str],
        Option(
            MALLEABLE,
            "What resizes cost: a file by pliant calibrate --out, none, default, or some of its seconds, as in "
            "start_s=60,blocked_s=2. Where it is not given: default for batches and journals, the articles' for "
            "paper2 and paper3, none for all others.",
        ),
    ] = ""
    data: Annotated[
        str,
        Option(MALLEABLE, f"What resizes of jobs have to move, at the cost of --cost's data_s: {FORMS}."),
    ] = NONE

    failures: Annotated[
        str | os.PathLike[str],
        Option(
            MACHINE,
            "Nodes fail and return: mtbf=90d,repair=1h (and seed=N), or a CSV of node, fail_s, return_s.",
        ),
    ] = ""
    requeue: Annotated[
        bool,
        Option(MACHINE, "Submit jobs that lose a node again; with --no-requeue they end as NODE_FAIL."),
    ] = True
    checkpoint: Annotated[
        str,
        Option(
            MACHINE,
            "Jobs write checkpoints, as in interval=30min,cost=20s (and restart=1min), and go on from these after a "
            "loss: malleable ones on what is left.",
        ),
    ] = ""
    energy: Annotated[
        str,
        Option(
            MACHINE,
            "Watts of a node, as in idle=100,busy=200 (and off=5,after=10min,boot=2min: idle nodes are switched off, "
            "and what starts on these waits for them).",
        ),
    ] = ""
    elastic: Annotated[
        str,
        Option(
            MACHINE,
            "Nodes come by request and go when nobody needs them, as in min=4,max=64,delay=90s,idle=5min: so many of "
            "them, each so long after it was asked for, and back after so long without use.",
        ),
    ] = ""
    partitions: Annotated[
        Described,
        Option(
            MACHINE,
            "The machine has the partitions that FILE.toml describes, each with nodes of its own, under --policy.",
        ),
    ] = ""
    reservations: Annotated[
        Described,
        Option(MACHINE, "Nodes are reserved in advance, as FILE.toml describes: no job runs there then."),
    ] = ""

    platform: Annotated[
        str | os.PathLike[str],
        Option(
            ELASTISIM,
            "The machine of ElastiSim's jobs, its speeds and its size: a SimGrid platform in XML.",
        ),
    ] = ""
    node_flops: Annotated[
        float | None,
        Option(ELASTISIM, "Speed of a node in FLOP/s, for ElastiSim's jobs.", 1.0, "number of FLOP/s"),
    ] = None
    pfs_read: Annotated[
        float | None,
        Option(ELASTISIM, "Bytes a second from the file system, for ElastiSim's jobs.", 1.0, RATE),
    ] = None
    pfs_write: Annotated[
        float | None,
        Option(ELASTISIM, "Bytes a second to the file system, for ElastiSim's jobs.", 1.0, RATE),
    ] = None
    link: Annotated[
        float | None,
        Option(
            ELASTISIM,
            "Bytes a second of a node's link, in each direction, for ElastiSim's jobs.",
            1.0,
            RATE,
        ),
    ] = None

    window: Annotated[
        str,
        Option(
            STUDY,
            "Count these jobs alone, amid those before and after: 5000 jobs, 30d, several windows as in 5x30d, "
            "10d..40d, or dates 1996-10-01..1996-11-01.",
        ),
    ] = ""
    warm_up: Annotated[
        str,
        Option(
            STUDY,
            "So many jobs, or as in 2d, or all, are simulated before and after what is counted; default: a tenth of "
            "the window.",
        ),
    ] = ""


class Field(NamedTuple):
    """A field of a ``SimulationRequest``: its type, default and option, which users write as ``called``."""

    name: str
    kind: Any
    default: Any
    option: Option

    @property
    def called(self) -> str:
        return self.name.removesuffix("_s").replace("_", "-")


@cache
def fields() -> tuple[Field, ...]:
    """All that can be asked."""
    hints = get_type_hints(SimulationRequest, include_extras=True)
    return tuple(
        Field(
            each.name,
            hints[each.name].__origin__,
            each.default,
            hints[each.name].__metadata__[0],
        )
        for each in msgspec.structs.fields(SimulationRequest)
    )


def requested(by: str, options: Mapping[str, Any]) -> SimulationRequest:
    """These options, checked. Raises BatchError: it names the option, and ``by`` whom an unknown one was given."""
    known = {field.name: field for field in fields()}
    for name in options:
        if name not in known:
            raise BatchError(f"{by}: there is no option {name!r}{nearest(name, list(known))}")
    return SimulationRequest(**{name: _checked(known[name], value) for name, value in options.items()})


def _checked(field: Field, value: Any) -> Any:
    """The value, of whatever library a number is."""
    _, kind, default, option = field
    if value is None and default is None:
        return None
    if field.name == "instant":
        return _instant(value)
    if isinstance(value, os.PathLike) and kind in PATHS:
        return os.fspath(value)
    if kind is bool:
        if not isinstance(value, bool):
            raise BatchError(f"--{field.called}: {value!r} is neither True nor False")
        return value
    if kind is int and not isinstance(value, Integral):
        raise BatchError(f"--{field.called}: {value!r} is no whole number")
    if option.least is not None:
        number = _real(value, field)
        return int(number) if kind is int else number
    if isinstance(default, str) and kind != Described and not isinstance(value, str):
        raise BatchError(f"--{field.called}: {value!r} is no text")
    return value


def _real(value: object, field: Field) -> float:
    _, _, _, (_, _, least, what, most) = field
    if isinstance(value, bool) or not isinstance(value, Real) or not (value <= most and value < LARGEST):
        raise BatchError(
            f"--{field.called}: {value if isinstance(value, Real) else repr(value)} is no {what}"
        )
    if least is not None and value < least:
        raise BatchError(f"--{field.called}: {value} is too little; the least is {least:g}")
    return float(value)


def _instant(text: object) -> Instant:
    known = [each.value for each in Instant]
    if text not in known:
        raise BatchError(f"--instant: there is no {text!r}{nearest(str(text), known)}")
    return Instant(text)


def with_options(function: F) -> F:
    """The function, whose ``**options`` help shows as all that can be asked, without what it names itself."""
    own = inspect.signature(function, eval_str=True)
    first = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    there = {each.name for each in first}
    rest = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.kind
        )
        for each in fields()
        if each.name not in there
    ]
    function.__signature__ = own.replace(parameters=[*first, *rest])  # type: ignore[attr-defined]
    return function
