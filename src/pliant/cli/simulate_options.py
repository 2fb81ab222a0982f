"""The options of ``pliant simulate``, by what they are about: so the help shows them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pliant.policy import registry
from pliant.policy.order import ORDERS
from pliant.sim.instant import Instant
from pliant.study.groups import LABELS
from pliant.study.options import LEAST
from pliant.workloads.data import FORMS as DATA_FORMS
from pliant.workloads.sources import FORMS

_workload = partial(typer.Option, rich_help_panel="Workload")
_policy = partial(typer.Option, rich_help_panel="Policy")
_malleable = partial(typer.Option, rich_help_panel="Malleable jobs and resizes")
_machine = partial(typer.Option, rich_help_panel="Machine")
_elastisim = partial(typer.Option, rich_help_panel="ElastiSim's jobs")
_study = partial(typer.Option, rich_help_panel="Studies: windows, and what differs")
_file = partial(typer.Option, rich_help_panel="Output")

WORKLOAD = Annotated[str, typer.Argument(help=f"One of: {FORMS}.", show_default=False)]
FROM_RECORDS = Annotated[
    str,
    _workload(
        help="What a live run was given (its records.ndjson), under --policy: what if? Under easy and the like, which "
        "resize nothing, jobs start at their preferred size (--start exact)."
    ),
]
NODES = Annotated[int, _workload(min=LEAST["nodes"], help="Nodes of the machine; 0: what the workload says.")]
RIGID = Annotated[bool, _workload("--rigid", help="Fix every job at its preferred size.")]
SEED = Annotated[
    int,
    _workload(
        min=LEAST["seed"],
        help="Seed of generators, of --malleable, --estimates, --belief, --data lognormal and --failures.",
    ),
]
ESTIMATES = Annotated[
    str,
    _workload(help="Users' estimates: requested, exact, or factor:F (up to F + 1 times too long)."),
]
STRICT = Annotated[
    bool,
    _workload(
        "--strict",
        help="Refuse a workload with a job that needs more nodes than there are, or with what is not simulated.",
    ),
]
DEPENDENCIES = Annotated[
    bool,
    _workload(
        "--dependencies",
        help="Submit a trace's job its think time after the job that it follows has ended (SWF's fields 17 and 18).",
    ),
]
POLICY = Annotated[
    str,
    _policy(
        help=f"One of {', '.join(registry.POLICIES)}, or FILE.py[:CLASS], with options as in "
        "marginal:payback=5, or exec:COMMAND for one in another process (docs/external.md); default: the batch's "
        "own, easy, or with --malleable malleable. Several, as in easy,malleable, are compared."
    ),
]
START = Annotated[
    str,
    _policy(
        help=f"Start rule of jobs with a choice: {', '.join(registry.START_RULES)}. By preferred a job starts on fewer "
        "nodes where no more are free; by exact it waits for those that it prefers."
    ),
]
ORDER = Annotated[str, _policy(help=f"Queue order: {', '.join(ORDERS)}.")]
WEIGHT = Annotated[
    list[str] | None, _policy(help="USER=WEIGHT, for the orders fairshare and weight; repeatable.")
]
HALF_LIFE_S = Annotated[
    float,
    _policy("--half-life", min=LEAST["half-life"], help="Seconds in which fairshare's usage halves."),
]
INSTANT = Annotated[
    Instant,
    _policy(
        help="Events of one instant: together, in pyss' order, for its exact waits, or in elastisim's, one by one."
    ),
]
BELIEF = Annotated[
    str,
    _policy(
        help="How long policies believe that jobs with a model take: exact, estimate (what users say), or factor:F "
        "(up to F times too long or too short)."
    ),
]
PASS_INTERVAL = Annotated[
    float | None,
    _policy(
        min=LEAST["pass-interval"], help="Seconds between scheduling passes; 0: one whenever it may matter."
    ),
]
MALLEABLE = Annotated[
    str, _malleable(help="Percentages of rigid jobs to make malleable, as in 0,50,100; a row for each.")
]
COMPAT = Annotated[
    bool,
    _malleable(
        "--compat", help="With --malleable: the published conversion, with run times in its longer form."
    ),
]
CONVERSION = Annotated[
    str,
    _malleable(
        help="With --malleable: the sizes of jobs, as in least=0.5,most=2,serial=rigid (the default: half to twice "
        "their nodes, serial jobs stay rigid; or serial=malleable), or published."
    ),
]
DATA = Annotated[
    str,
    _malleable(help=f"What resizes of jobs have to move, at the cost of --cost's data_s: {DATA_FORMS}."),
]
COST = Annotated[
    str,
    _malleable(
        help="What resizes cost: a file by pliant calibrate --out, none, default, or some of its seconds, as in "
        "start_s=60,blocked_s=2. Where it is not given: default for batches and journals, the articles' for paper2 "
        "and paper3, none for all others."
    ),
]
COOLDOWN = Annotated[
    float | None,
    _malleable(
        min=LEAST["cooldown"],
        help="Least seconds between two resizes of a job; default: the workload's, or 2.",
    ),
]
OFFER_DEADLINE = Annotated[
    float | None,
    _malleable(
        min=LEAST["offer-deadline"],
        help="Seconds until an offer without answer is withdrawn; in live runs 20.",
    ),
]
RESIZE_DEADLINE = Annotated[
    float | None,
    _malleable(
        min=LEAST["resize-deadline"],
        help="Seconds until an accepted resize that is not done is withdrawn; default: 30, or twice what the largest "
        "costs if that is more.",
    ),
]
PARTITIONS = Annotated[
    str,
    _machine(
        help="The machine has the partitions that FILE.toml describes, each with nodes of its own, under --policy."
    ),
]
RESERVATIONS = Annotated[
    str,
    _machine(help="Nodes are reserved in advance, as FILE.toml describes: no job runs there then."),
]
FAILURES = Annotated[
    str,
    _machine(
        help="Nodes fail and return: mtbf=90d,repair=1h (and seed=N), or a CSV of node, fail_s, return_s."
    ),
]
REQUEUE = Annotated[
    bool, _machine(help="Submit jobs that lose a node again; with --no-requeue they end as NODE_FAIL.")
]
CHECKPOINT = Annotated[
    str,
    _machine(
        help="Jobs write checkpoints, as in interval=30min,cost=20s (and restart=1min), and go on from these after a "
        "loss: malleable ones on what is left."
    ),
]
ENERGY = Annotated[
    str,
    _machine(
        help="Watts of a node, as in idle=100,busy=200 (and off=5,after=10min,boot=2min: idle nodes are switched off, "
        "and what starts on these waits for them)."
    ),
]
ELASTIC = Annotated[
    str,
    _machine(
        help="Nodes come by request and go when nobody needs them, as in min=4,max=64,delay=90s,idle=5min: so many of "
        "them, each so long after it was asked for, and back after so long without use."
    ),
]
PLATFORM = Annotated[
    str,
    _elastisim(help="The machine of ElastiSim's jobs, its speeds and its size: a SimGrid platform in XML."),
]
NODE_FLOPS = Annotated[
    float | None,
    _elastisim(min=LEAST["node-flops"], help="Speed of a node in FLOP/s, for ElastiSim's jobs."),
]
PFS_READ = Annotated[
    float | None,
    _elastisim(min=LEAST["pfs-read"], help="Bytes a second from the file system, for ElastiSim's jobs."),
]
PFS_WRITE = Annotated[
    float | None,
    _elastisim(min=LEAST["pfs-write"], help="Bytes a second to the file system, for ElastiSim's jobs."),
]
LINK = Annotated[
    float | None,
    _elastisim(
        min=LEAST["link"], help="Bytes a second of a node's link, in each direction, for ElastiSim's jobs."
    ),
]
SEEDS = Annotated[int, _study(min=1, help="Repeat with so many seeds, and show means and 95 % intervals.")]
WORKERS = Annotated[int, _study(min=0, help="Processes for several simulations; 0: one a processor.")]
WINDOW = Annotated[
    str,
    _study(
        help="Count these jobs alone, amid those before and after: 5000 jobs, 30d, several windows as in 5x30d, "
        "10d..40d, or dates 1996-10-01..1996-11-01."
    ),
]
WARM_UP = Annotated[
    str,
    _study(
        help="So many jobs, or as in 2d, or all, are simulated before and after what is counted; default: a tenth of "
        "the window."
    ),
]
BY = Annotated[
    str,
    _study(help=f"What differs, for each group of jobs too: {', '.join(LABELS)}, or several of them."),
]
AGAINST = Annotated[
    str,
    _study(
        help="Compare with this: easy at the same percentage, easy@0, or @0 for each policy's own; default: the first "
        "policy, or of one policy the first percentage."
    ),
]
JOBS_CSV = Annotated[
    Path | None, _file(help="Write a line for each job to this file, in order of submission.")
]
RECORDS = Annotated[
    Path | None,
    _file(help="Write the journal of the simulation to this file, FILE.ndjson, as that of a live run."),
]
SWF = Annotated[
    Path | None,
    _file(help="Write the schedule to this file, FILE.swf: a trace in SWF, with its waits."),
]
CONVERT = Annotated[
    Path | None,
    _file(help="Write the jobs as they were simulated to this file, FILE.swf: a workload in SWF."),
]
EVALYS_CSV = Annotated[
    Path | None, _file(help="Write a line for each job to this file, as Batsim does and Evalys reads.")
]
REPORT = Annotated[
    Path | None, _file(help="Write an HTML report of one simulation here, and JSON beside it.")
]
AS_JSON = Annotated[bool, _file("--json", help="Print JSON instead of a table.")]
