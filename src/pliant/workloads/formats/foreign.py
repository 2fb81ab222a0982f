"""Files that are no workload for Pliant, known by how they look: an error names what they are, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TABLE = "make a table of submit_s, run_s, nodes and walltime_s of it for pliant.simulate, or a trace in SWF"
BATSIM = (
    "is a workload of Batsim (nb_res, jobs, profiles), whose profiles Pliant does not simulate; of jobs that take a "
    f"known time {TABLE}"
)
ACCASIM = "is AccaSim's description of a machine (groups, resources); give the workload, a trace in SWF, and --nodes"
SACCT = f"is what Slurm's sacct printed; {TABLE}"
PLATFORM = (
    "is a SimGrid platform, a machine without jobs; with ElastiSim's jobs give it by --platform, else the workload and "
    "--nodes"
)
GWF = f"is a trace of the Grid Workloads Archive (GWF); {TABLE}"
SCHEDULE = f"is Batsim's table of jobs that have run; {TABLE}"
NAMED = (
    (r"\{\s*\"began\"", "is a journal", ".ndjson"),
    (r"(#.*\n|\s)*\[+(cluster|jobs)\]", "is a batch", ".toml"),
    (r"\s*[{\[]", "is JSON, as ElastiSim's jobs are", ".json"),
    (r"(\s*;[^\n]*\n)*\s*(;\s*\w+:|(-?\d+(\.\d+)?[ \t]+){4})", "looks like a trace in SWF", ".swf"),
)
"""Files that Pliant reads: their beginning, a name, and the suffix."""
LOOKS = (
    (r"(?s)\s*\{.*\"(nb_res|profiles)\"", BATSIM),
    (r"\s*<(\?xml|!DOCTYPE platform|platform)", PLATFORM),
    (r"\s*([A-Za-z]+[|, \t]+)*JobID(Raw)?[|, \t]", SACCT),
    (r"(?s)\s*#.*\bSubmitTime\b", GWF),
    (r"job_id,workload_name,profile,", SCHEDULE),
)
"""Files that Pliant does not read: their beginning, and a name with the remedy."""


def foreign(begins: str, suffix: str = "") -> str:
    """Name the file that ``begins`` so, if it is no workload or its ``suffix`` is another format's; empty otherwise."""
    for looks, what in LOOKS:
        if re.match(looks, begins):
            return what
    for looks, what, named in NAMED:
        if re.match(looks, begins):
            return "" if named == suffix else f"{what}: such a file is called FILE{named}"
    return ""


def foreign_json(data: Any) -> str:
    """Name JSON of another program; empty if it is none."""
    if not isinstance(data, Mapping):
        return ""
    if {"jobs", "profiles"} <= data.keys() or "nb_res" in data:
        return BATSIM
    if {"groups", "resources"} <= data.keys():
        return ACCASIM
    meta = data.get("meta")
    return SACCT if isinstance(meta, Mapping) and {"Slurm", "slurm", "plugin"} & meta.keys() else ""
