"""docs/report.png anew, of the journals of a demonstration: ``python tests/pure/readme_picture.py pliant-runs``."""

from __future__ import annotations

import sys
from pathlib import Path

from pliant.charts import figures
from pliant.core.journal import by_name
from pliant.files.journal import read_records
from pliant.report.runs import Run

PICTURE = Path(__file__).parents[2] / "docs/report.png"


def main(place: Path) -> None:
    runs = []
    for name in ("rigid", "malleable"):
        header, records = read_records(place / name / "records.ndjson")
        runs.append(Run(name, header.policy, *by_name(records)))
    figures.build(runs).figure.savefig(PICTURE, dpi=110, facecolor="white")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
