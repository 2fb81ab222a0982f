"""Runs a notebook from its start and gives it with its outputs; as a program, stores it so:

.venv/bin/python tests/pure/notebooks.py docs/simulate.ipynb
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path) -> Any:
    """The notebook as it is after a run in a kernel of its own, of this very Python. CellExecutionError for a cell that
    raises, CellTimeoutError for one that takes minutes."""
    notebook = read(path)
    # Times of a run would be other each time.
    NotebookClient(notebook, kernel_name="python3", timeout=180, record_timing=False).execute()
    return notebook


def outputs(notebook: Any) -> list[list[str]]:
    """What each cell of code shows, as text; of a picture, that there is one."""
    return [
        [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        nbformat.write(executed(Path(name)), name)  # type: ignore[no-untyped-call]
