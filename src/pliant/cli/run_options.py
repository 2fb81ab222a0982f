"""The options of ``pliant run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.hosts import ProviderName
from pliant.model.kinds import JobKind
from pliant.model.limits import MOST_NODES
from pliant.policy import registry
from pliant.policy.order import ORDERS

BATCH_OR_COMMAND = Annotated[
    list[str] | None, typer.Argument(metavar="BATCH.toml | -- COMMAND...", show_default=False)
]
SIZE = Annotated[
    str, typer.Option("-N", help="Without a batch: nodes of the job, as 4 or 1:8 (min:max); default: 1.")
]
WALLTIME = Annotated[
    str,
    typer.Option(
        "-t",
        "--walltime",
        metavar="TIME",
        help="Without a batch: the job's estimate, as 90 (seconds), 30min, 1:30:00 or 2-00 (days-hours); default: 1h. "
        "The queue is planned by it; a job that takes longer goes on.",
    ),
]
TIME_LIMIT = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Without a batch: end the job after so long; the limit is its estimate, too. In a batch each job says so: "
        "walltime = TIME and kill = true.",
    ),
]
KIND = Annotated[
    JobKind | None,
    typer.Option(help="Without a batch: what the job's nodes are to each other; default: mpi."),
]
MPI = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Without a batch: which MPI the command loads, where Pliant cannot find out, as in a shell "
        "script: mpich, intel or openmpi, perhaps with a version, as 'mpich 4.1'.",
    ),
]
NODES = Annotated[
    int,
    typer.Option(
        min=0, max=MOST_NODES, help="How many nodes; 0: as the batch says; without that 8, or all hosts."
    ),
]
HOSTS = Annotated[
    str,
    typer.Option(
        help="Run on nodes that are reached by ssh, as node[01-16], a,b:2222 or [::1]:2222, not on virtual ones."
    ),
]
LABEL = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL=NODES",
        help="Label nodes, as gpu=n[0-3] or big=node07, also those that only pliant nodes add brings; may be repeated.",
    ),
]
PROVIDER = Annotated[
    ProviderName | None,
    typer.Option(help="Where nodes come from; slurm: from the allocation that this is called in."),
]
INTERFACE = Annotated[
    str,
    typer.Option(help="Where the hosts' agents listen: its name, or a network: 10.0.0.0/16, 2001:db8::/64."),
]
DEGREE = Annotated[
    str,
    typer.Option(
        help="Degree of the tree that starts the hosts' agents: a number, binomial or direct; default: 32, "
        "by srun direct."
    ),
]
POLICY = Annotated[
    str,
    typer.Option(
        help=f"One of {', '.join(registry.POLICIES)}, or FILE.py[:CLASS], with options as in marginal:payback=5."
    ),
]
START = Annotated[str, typer.Option(help=f"Start rule: {', '.join(registry.START_RULES)}.")]
ORDER = Annotated[str, typer.Option(help=f"Queue order: {', '.join(ORDERS)}.")]
RIGID = Annotated[bool, typer.Option("--rigid", help="Every job at its preferred size, under EASY.")]
COMPARE = Annotated[bool, typer.Option("--compare", help="Run twice: rigid, then malleable.")]
COST = Annotated[
    str, typer.Option(help="What resizes cost: a file by pliant calibrate --out, none, or default.")
]
DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Check the batch and predict it; start nothing.")]
REPORT = Annotated[Path | None, typer.Option(help="Write an HTML report here, and JSON beside it.")]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print report.json instead of tables.")]
OUTPUT = Annotated[Path, typer.Option(help="Directory for the jobs' output and the records.")]
