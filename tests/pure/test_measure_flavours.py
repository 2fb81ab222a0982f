"""MPIs side by side: rows of those that cannot resize jobs say why, and the first MPICH is what all are compared with."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.console import Console

from pliant.daemon.detect import DetectedMpi
from pliant.model.flavours import named
from pliant_lab.commands.bench_flavours import show
from pliant_lab.measure.flavours import Cycles, compare, measure


def row(grow: float | None) -> dict[str, float | None]:
    return {"grow_blocked_s": grow, "blocked_over_mpich": None}


def test_all_arecompared_with_the_first_mpich_that_has_figures() -> None:
    rows = [row(0.3), row(None), row(0.1), row(0.2)]
    compare(rows, [False, True, True, True])
    assert [each["blocked_over_mpich"] for each in rows] == [3.0, None, 1.0, 2.0]
    rows = [row(0.3)]
    compare(rows, [False])
    assert rows[0]["blocked_over_mpich"] is None


def test_what_cannot_be_resized_is_not_tried_and_says_why(tmp_path: Path) -> None:
    found = [
        DetectedMpi(named("mpich 3.4"), "/a/libmpi.so.12"),
        DetectedMpi(named("openmpi 4.1"), "/b/libmpi.so.40"),
    ]
    asked = Cycles((1, 2), 1, 2, 2)
    seen: list[tuple[int, int]] = []
    rows = asyncio.run(measure(found, asked, tmp_path, lambda *each: seen.append(each)))
    assert [(each["mpi"], each["resizes"]) for each in rows] == [("MPICH 3.4", 0), ("Open MPI 4.1", 0)]
    assert "before 4.0" in rows[0]["error"]
    assert "5.0.8" in rows[1]["error"]
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4)]
    console = Console(width=100, record=True)
    show({"sizes": [1, 2], "slots": 1, "processors": 2, "load_average": 0.1, "rows": rows}, console)
    assert "MPICH 3.4: MPI_Open_port" in console.export_text()
