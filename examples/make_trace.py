"""Makes trace.swf.gz: 300 jobs of Lublin and Feitelson's model on 100 nodes, by a seed of their own.

    .venv/bin/python examples/make_trace.py

Short narrow jobs are in queue 2, for parts.toml, and six users submit by turns that a seed draws.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

from pliant.workloads.generators.lublin import lublin_jobs

JOBS, NODES, SEED, LOAD = 300, 100, 35, 0.85
TRACE = Path(__file__).parent / "trace.swf.gz"
HEAD = f"""; Computer: none: jobs of Lublin and Feitelson's model, made by examples/make_trace.py
; MaxNodes: {NODES}
; MaxProcs: {NODES}
; MaxJobs: {JOBS}
; Queues: 1 is for all jobs, 2 for those of at most 16 nodes and an hour
"""


def text() -> str:
    """The trace, the same whenever it is made."""
    draw = random.Random(SEED)
    lines = []
    for number, job in enumerate(lublin_jobs(JOBS, NODES, SEED, load=LOAD), 1):
        nodes, run = job.spec.nodes.preferred, max(1, round(job.time(job.spec.nodes.preferred)))
        estimate = round(run * draw.choice((1, 1.5, 3)))
        queue = 2 if nodes <= 16 and estimate <= 3600 else 1
        user = draw.randrange(1, 7)
        asked = f"{nodes} {estimate} -1 1 {user} -1 -1 {queue} -1 -1 -1"
        lines.append(f"{number} {round(job.spec.submit_s)} -1 {run} {nodes} -1 -1 {asked}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    TRACE.write_bytes(gzip.compress(text().encode(), mtime=0))
