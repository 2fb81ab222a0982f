"""A digest of all records of simulations under each policy, to compare two builds of Pliant by (``make compiled``).

python tests/digests.py [--compiled]; with the option it fails unless the modules that it runs are compiled.
"""

from __future__ import annotations

import hashlib
import sys

from msgspec import structs

from pliant.core import core
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.plan.cost import INSTANT
from pliant.policy.registry import POLICIES, make
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.estimates import with_beliefs, with_estimates
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable

NODES, SEED = 128, 42
FREE, USUAL = Settings(cost=INSTANT), Settings()


def workloads() -> dict[str, tuple[list[SimJob], Settings]]:
    jobs = lublin_jobs(250, NODES, SEED, load=0.9)
    burst = [structs.replace(job, spec=structs.replace(job.spec, submit_s=0.0)) for job in jobs[:150]]
    loose = with_estimates(jobs, "factor:5", SEED)
    return {
        "rigid": (loose, FREE),
        "half malleable": (make_malleable(loose, 50, NODES, SEED, conversion=PUBLISHED), USUAL),
        "malleable": (make_malleable(jobs, 100, NODES, SEED, conversion=PUBLISHED), FREE),
        "malleable, at the usual cost": (make_malleable(jobs, 100, NODES, SEED, conversion=PUBLISHED), USUAL),
        "wrong models": (
            with_beliefs(make_malleable(loose, 100, NODES, SEED, conversion=PUBLISHED), "factor:4", SEED),
            USUAL,
        ),
        "burst": (make_malleable(burst, 50, NODES, SEED, conversion=PUBLISHED), FREE),
    }


def digest(policy: str, jobs: list[SimJob], settings: Settings) -> str:
    found = hashlib.sha256()
    simulate(jobs, NODES, make(policy), Conditions(settings), lambda record: found.update(r.to_line(record)))
    return found.hexdigest()


def main() -> None:
    if ("--compiled" in sys.argv) != (not core.__file__.endswith(".py")):
        sys.exit(f"this is another build than was meant: {core.__file__}")
    for name, (jobs, settings) in workloads().items():
        for policy in (*POLICIES, "marginal:payback=5", "easy:start=max"):
            print(f"{digest(policy, jobs, settings)}  {policy}, {name}")


if __name__ == "__main__":
    main()
