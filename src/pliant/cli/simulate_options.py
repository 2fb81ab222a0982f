"""The options of ``pliant simulate``."""

from __future__ import annotations

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

WORKLOAD = Annotated[str, typer.Argument(help=f"One of: {FORMS}.", show_default=False)]
FROM_RECORDS = Annotated[
    str, typer.Option(help="What a live run was given (its records.ndjson), under --policy: what if?")
]
NODES = Annotated[
    int, typer.Option(min=LEAST["nodes"], help="Nodes of the machine; 0: what the workload says.")
]
POLICY = Annotated[
    str,
    typer.Option(
        help=f"One of {', '.join(registry.POLICIES)}, or FILE.py[:CLASS], with options as in "
        "marginal:payback=5, or exec:COMMAND for one in another process (docs/external.md); else the batch's "
        "own, easy, or with --malleable malleable. Several, as in easy,malleable, are compared."
    ),
]
START = Annotated[
    str, typer.Option(help=f"Start rule of jobs with a choice: {', '.join(registry.START_RULES)}.")
]
RIGID = Annotated[bool, typer.Option("--rigid", help="Fix every job at its preferred size.")]
ORDER = Annotated[str, typer.Option(help=f"Queue order: {', '.join(ORDERS)}.")]
WEIGHT = Annotated[
    list[str] | None, typer.Option(help="USER=WEIGHT, for the orders fairshare and weight; repeatable.")
]
HALF_LIFE_S = Annotated[
    float,
    typer.Option("--half-life", min=LEAST["half-life"], help="Seconds in which fairshare's usage halves."),
]
INSTANT = Annotated[
    Instant,
    typer.Option(
        help="Events of one instant: together, in pyss' order, for its exact waits, or in elastisim's, one by one."
    ),
]
MALLEABLE = Annotated[
    str, typer.Option(help="Percentages of rigid jobs to make malleable, as in 0,50,100; a row for each.")
]
COMPAT = Annotated[
    bool,
    typer.Option(
        "--compat", help="With --malleable: the published conversion, with run times in its longer form."
    ),
]
CONVERSION = Annotated[
    str,
    typer.Option(
        help="With --malleable: the sizes of jobs, as in least=0.5,most=2,serial=rigid (the default: half to twice "
        "their nodes, serial jobs stay rigid; or serial=malleable), or published."
    ),
]
SEED = Annotated[
    int, typer.Option(min=LEAST["seed"], help="Seed of generators, of --malleable, --estimates and --belief.")
]
SEEDS = Annotated[
    int, typer.Option(min=1, help="Repeat with so many seeds, and show means and 95 % intervals.")
]
WORKERS = Annotated[int, typer.Option(min=0, help="Processes for several simulations; 0: one a processor.")]
ESTIMATES = Annotated[
    str,
    typer.Option(help="Users' estimates: requested, exact, or factor:F (up to F + 1 times too long)."),
]
BELIEF = Annotated[
    str,
    typer.Option(
        help="How long policies believe that jobs with a model take: exact, estimate (what users say), or factor:F "
        "(up to F times too long or too short)."
    ),
]
PLATFORM = Annotated[
    str,
    typer.Option(help="The machine of ElastiSim's jobs, its speeds and its size: a SimGrid platform in XML."),
]
NODE_FLOPS = Annotated[
    float | None,
    typer.Option(min=LEAST["node-flops"], help="Speed of a node in FLOP/s, for ElastiSim's jobs."),
]
PFS_READ = Annotated[
    float | None,
    typer.Option(min=LEAST["pfs-read"], help="Bytes a second from the file system, for ElastiSim's jobs."),
]
PFS_WRITE = Annotated[
    float | None,
    typer.Option(min=LEAST["pfs-write"], help="Bytes a second to the file system, for ElastiSim's jobs."),
]
LINK = Annotated[
    float | None,
    typer.Option(
        min=LEAST["link"], help="Bytes a second of a node's link, in each direction, for ElastiSim's jobs."
    ),
]
PASS_INTERVAL = Annotated[
    float | None,
    typer.Option(
        min=LEAST["pass-interval"], help="Seconds between scheduling passes; 0: one whenever it may matter."
    ),
]
COOLDOWN = Annotated[
    float | None,
    typer.Option(min=LEAST["cooldown"], help="Least seconds between two resizes of a job; live 2."),
]
OFFER_DEADLINE = Annotated[
    float | None,
    typer.Option(
        min=LEAST["offer-deadline"], help="Seconds until an offer without answer is withdrawn; live 20."
    ),
]
RESIZE_DEADLINE = Annotated[
    float | None,
    typer.Option(
        min=LEAST["resize-deadline"],
        help="Seconds until an accepted resize that is not done is withdrawn; else 30, or twice what the largest "
        "costs if that is more.",
    ),
]
COST = Annotated[
    str,
    typer.Option(
        help="What resizes cost: a file by pliant calibrate --out, none, default, or some of its seconds, as in "
        "start_s=60,blocked_s=2."
    ),
]
DATA = Annotated[
    str,
    typer.Option(help=f"What resizes of jobs have to move, at the cost of --cost's data_s: {DATA_FORMS}."),
]
FAILURES = Annotated[
    str,
    typer.Option(
        help="Nodes fail and return: mtbf=90d,repair=1h (and seed=N), or a CSV of node, fail_s, return_s."
    ),
]
REQUEUE = Annotated[
    bool, typer.Option(help="Submit jobs that lose a node again; else they end as NODE_FAIL.")
]
CHECKPOINT = Annotated[
    str,
    typer.Option(
        help="Jobs write checkpoints, as in interval=30min,cost=20s (and restart=1min), and go on from these after a "
        "loss: malleable ones on what is left."
    ),
]
ENERGY = Annotated[
    str,
    typer.Option(
        help="Watts of a node, as in idle=100,busy=200 (and off=5,after=10min,boot=2min: idle nodes are switched off, "
        "and what starts on these waits for them)."
    ),
]
DEPENDENCIES = Annotated[
    bool,
    typer.Option(
        "--dependencies",
        help="Submit a trace's job its think time after the job that it follows has ended (SWF's fields 17 and 18).",
    ),
]
WINDOW = Annotated[
    str,
    typer.Option(
        help="Count these jobs alone, amid those before and after: 5000 jobs, 30d, several windows as in 5x30d, "
        "10d..40d, or dates 1996-10-01..1996-11-01."
    ),
]
WARM_UP = Annotated[
    str,
    typer.Option(
        help="So many jobs, or as in 2d, are simulated before and after what is counted; else a tenth of the window."
    ),
]
BY = Annotated[
    str,
    typer.Option(help=f"What differs, for each group of jobs too: {', '.join(LABELS)}, or several of them."),
]
AGAINST = Annotated[
    str,
    typer.Option(
        help="What is compared with what: easy at the same percentage, easy@0, or @0 for each policy's own; else the "
        "first policy, or of one policy the first percentage."
    ),
]
PARTITIONS = Annotated[
    str,
    typer.Option(
        help="The machine has the partitions that FILE.toml describes, each with nodes of its own, under --policy."
    ),
]
RESERVATIONS = Annotated[
    str,
    typer.Option(help="Nodes are reserved in advance, as FILE.toml describes: no job runs there then."),
]
STRICT = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse a workload with a job that needs more nodes than there are, or with what is not simulated.",
    ),
]
JOBS_CSV = Annotated[
    Path | None, typer.Option(help="Write a line for each job to this file, in order of submission.")
]
RECORDS = Annotated[
    Path | None,
    typer.Option(
        help="Write the journal of the simulation to this file, FILE.ndjson, as that of a live run."
    ),
]
SWF = Annotated[
    Path | None,
    typer.Option(help="Write the schedule to this file, FILE.swf: a trace in SWF, with its waits."),
]
CONVERT = Annotated[
    Path | None,
    typer.Option(help="Write the jobs as they were simulated to this file, FILE.swf: a workload in SWF."),
]
EVALYS_CSV = Annotated[
    Path | None, typer.Option(help="Write a line for each job to this file, as Batsim does and Evalys reads.")
]
REPORT = Annotated[
    Path | None, typer.Option(help="Write an HTML report of one simulation here, and JSON beside it.")
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
