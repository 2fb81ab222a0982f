"""docs/simulate.ipynb: its cells run, and show what is stored with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebooks import executed, outputs, read
from test_public import ROOT, imported

import pliant
from pliant import testing

PATH = ROOT / "docs/simulate.ipynb"


@pytest.mark.long
def test_the_notebook_shows_what_is_stored_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that have changed fail; how wide a table is set does not matter."""
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    stored = read(PATH)
    run, known = (
        [[text.split() for text in cell] for cell in outputs(each)] for each in (executed(PATH), stored)
    )
    assert run == known, "if that is right, run: .venv/bin/python tests/pure/notebooks.py docs/simulate.ipynb"
    assert sum(len(cell) for cell in known) == 7


def test_the_notebook_needs_what_is_exported() -> None:
    cells = read(PATH).cells
    used = [each for cell in cells if cell.cell_type == "code" for each in imported(cell.source)]
    ours = {(module, name) for module, name in used if module.partition(".")[0] == "pliant"}
    offered = {("pliant", name) for name in pliant.__all__}
    assert ours <= offered | {("pliant.testing", name) for name in testing.__all__}
