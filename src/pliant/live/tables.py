"""The state tables of docs/protocol.md, made from the ones that the machines run on."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.live.fleet import stages
from pliant.protocol import job_side, resizing, scheduler_side


def markdown(sends: Mapping[tuple[str, str], str], receives: Mapping[tuple[str, str], str]) -> str:
    """One table: a row a state, its transitions as ``message -> next state``."""
    states = list(dict.fromkeys(state for state, _ in [*sends, *receives]))
    rows = ["| state | may send | may receive |", "|---|---|---|"]
    for state in states:
        cells = [
            "<br>".join(f"`{name}` → {after}" for (at, name), after in table.items() if at == state)
            for table in (sends, receives)
        ]
        rows.append(f"| **{state}** | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)


def resizes() -> str:
    """The table of a resize's states: a row for each input that counts in a state."""
    rows = ["| state | input | next state | what becomes of its groups and nodes |", "|---|---|---|---|"]
    rows += [
        f"| **{state}** | `{name}` | {move.state} | {move.effect.value} |"
        for (state, name), move in resizing.TABLE.items()
    ]
    return "\n".join(rows)


def nodes() -> str:
    """The table of a node's life: a row for each stage."""
    rows = ["| stage | what befalls it → next stage |", "|---|---|"]
    for stage in stages.NodeStage:
        ways = [f"{what} → {after}" for (at, what), after in stages.TABLE.items() if at is stage]
        if ways:
            rows.append(f"| **{stage}** | {', '.join(ways)} |")
    return "\n".join(rows)


def sections() -> dict[str, str]:
    """The generated parts of docs/protocol.md by their marker."""
    return {
        "nodes": nodes(),
        "resize": resizes(),
        "job": markdown(job_side.SEND, job_side.RECEIVE),
        "scheduler": markdown(scheduler_side.SEND, scheduler_side.RECEIVE),
    }


def refresh(text: str) -> str:
    """``text`` with every part between ``<!-- table: X -->`` and ``<!-- end -->`` made anew."""
    for marker, table in sections().items():
        head, found, rest = text.partition(f"<!-- table: {marker} -->\n")
        if not found:
            raise ValueError(f"no marker for the table {marker!r}")
        text = f"{head}{found}\n{table}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text
