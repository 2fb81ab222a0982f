"""What is refused before a live run starts anything: more nodes than it takes, commands that cannot be started."""

from __future__ import annotations

import os
from pathlib import Path

from pliant.daemon.directory import current_directory
from pliant.daemon.journal import log_file
from pliant.launch.verify import with_own_python
from pliant.model.batch import Batch
from pliant.model.errors import BatchError
from pliant.model.limits import LIVE_NODES
from pliant.protocol.starting import room_beside, start_problem


def check(batch: Batch, output: Path) -> None:
    """BatchError if the batch cannot be run live on this machine, its jobs' output going to ``output``."""
    if batch.cluster.nodes > LIVE_NODES:
        raise BatchError(
            f"{batch.source}: {batch.cluster.nodes:,} nodes are too many to run: each is a process, and the "
            f"most is {LIVE_NODES}; larger machines can be simulated (pliant simulate, or --dry-run)"
        )
    own = with_own_python(os.environ)
    room = room_beside(own, os.sysconf("SC_ARG_MAX"))
    here = current_directory()
    for job in batch.jobs:
        env = {"PATH": own["PATH"], **job.env}
        place = str(log_file(Path(here) / output, job))
        for what, words in (("", job.command), ("verify: ", job.verify)):
            if words and (problem := start_problem(words, env, job.cwd or here, place, room)):
                raise BatchError(f"{batch.source}: job {job.name!r}: {what}{problem}")
