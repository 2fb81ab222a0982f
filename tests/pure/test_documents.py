"""Documents that are made from the code say what the code says."""

from __future__ import annotations

import json
from pathlib import Path

from pliant.protocol import codec
from pliant.protocol.tables import refresh

ROOT = Path(__file__).parents[2]


def test_the_state_tables_of_the_protocol_are_those_of_the_code() -> None:
    text = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    assert refresh(text) == text, "run: .venv/bin/python -m pliant.cli.tables docs/protocol.md"


def test_the_examples_of_the_protocol_are_messages_with_all_their_fields() -> None:
    lines = (ROOT / "docs/protocol.md").read_text(encoding="utf-8").splitlines()
    examples = [line.split(maxsplit=1) for line in lines if line.startswith(("    → ", "    ← "))]
    assert len(examples) == 2
    for arrow, text in examples:
        message = (codec.from_job() if arrow == "→" else codec.from_scheduler()).decode(text.encode())
        assert json.loads(codec.encode(message)) == json.loads(text)
