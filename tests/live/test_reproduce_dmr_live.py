"""``pliant reproduce dmr`` with a batch of a few real jobs: they ask the scheduler themselves, and are resized."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
from harness import PLIANT

JOBS = 5


@pytest.mark.long
def test_a_few_jobs_are_run_three_ways_and_what_they_took_is_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = subprocess.run(
        [
            PLIANT, "reproduce", "dmr", "--quick", "--jobs", str(JOBS), "--bytes", str(1 << 20), "--out", str(out),
            "--policy", "dmr-preferred", "--json",
        ],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["problems"] == []
    with (out / "dmr-table-2-actions.csv").open() as file:
        rows = {(row["action"], row["way"], row["field"]): row["ours"] for row in csv.DictReader(file)}
    for way in ("synchronous", "asynchronous"):
        assert float(rows["no action", way, "quantity"]) > JOBS
        # Others wait while the first two have all nodes: they go to what they prefer.
        assert float(rows["shrink", way, "quantity"]) >= 1
        assert float(rows["shrink", way, "max_s"]) > 0
    with (out / "dmr-jobs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3 * JOBS
    assert "all results were those of serial runs" in (out / "README.md").read_text()
