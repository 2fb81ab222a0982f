"""Documents that are made from the code say what the code says."""

from __future__ import annotations

from pathlib import Path

from pliant.protocol.tables import refresh

ROOT = Path(__file__).parents[2]


def test_the_state_tables_of_the_protocol_are_those_of_the_code() -> None:
    text = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    assert refresh(text) == text, "run: .venv/bin/python -m pliant.cli.tables docs/protocol.md"
