"""Documents that are made from the code say what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pliant.live.tables import refresh
from pliant.protocol import codec
from pliant.protocol.messages import Message

ROOT = Path(__file__).parents[2]


def test_the_state_tables_of_the_protocol_are_those_of_the_code() -> None:
    text = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    assert refresh(text) == text, "run: .venv/bin/python -m pliant.cli.tables docs/protocol.md"


def test_the_examples_of_the_protocol_are_messages_with_all_their_fields() -> None:
    lines = (ROOT / "docs/protocol.md").read_text(encoding="utf-8").splitlines()
    examples = [line.split(maxsplit=1) for line in lines if line.startswith(("    → ", "    ← "))]
    assert [arrow for arrow, _ in examples] == ["→", "←"] * 2
    hello, welcome, order, answer = (text for _, text in examples)
    assert as_written(codec.from_job().decode(hello.encode())) == json.loads(hello)
    assert as_written(codec.from_scheduler().decode(welcome.encode())) == json.loads(welcome)
    to, back = codec.to_agents().decode(order.encode()), codec.from_nodes().decode(answer.encode())
    assert as_written(to) == json.loads(order)
    assert as_written(back) == json.loads(answer)
    assert as_written(codec.from_controller().decode(to.message)) == json.loads(order)["message"]
    assert as_written(codec.from_agent().decode(back.message)) == json.loads(answer)["message"]


def test_papers_are_named_by_their_authors() -> None:
    texts = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")]
    texts += [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab/src").rglob("*.py")]
    assert [path.name for path in texts if re.search(r"[Pp]aper \d", path.read_text(encoding="utf-8"))] == []


def as_written(message: Message) -> object:
    return json.loads(codec.encode(message))
