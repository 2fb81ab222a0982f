"""Plain English and plain numbers: what a person reads where the records hold codes and floats."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pliant.model.words import count

if TYPE_CHECKING:  # what prints words alone need not load the scheduler's
    from pliant.policy.view import Reason

SENTENCES = {
    "fits": "its turn had come and enough nodes were free",
    "backfilled": "it fitted ahead of its turn without delaying the head of the queue",
    "idle_nodes": "nobody was waiting for the free nodes",
    "best_use": "nobody could make better use of the free nodes",
    "entitled": "by now it would have started if all jobs were rigid",
    "early": "others are so far ahead that they lend it nodes for all of its estimate",
    "lead_lent": "it is ahead of what it is entitled to, and lends nodes",
    "shrink_for_head": "nodes were needed for the head of the queue",
    "shrink_for_waiting": "a waiting job could make better use of the nodes",
    "shrink_for_better_use": "another job could make better use of the nodes",
    "shrink_for_share": "others had less than their share",
    "agreement_met": "the nodes that were kept for it are free",
    "agreement_exchanged": "free nodes kept for others were enough, and those get the ones it waited for",
    "ordered": "an operator ordered it",
    "wanted": "the job asked for it",
    "asked_back": "the nodes that it leaves were asked back",
}

CAUSE_CHARACTERS = 500
BUS_ERROR = 128 + 7
BUS_HINT = "signal 7 mostly means that /dev/shm is full: see pliant doctor"


def why(reason: Reason, name_of: Callable[[int], str]) -> str:
    """The reason as a clause that follows "because" or a colon."""
    if reason.code == "shrink_for_head" and reason.for_job:
        head = name_of(reason.for_job)
        saved = reason.figures.get("wait_saved_s", math.inf)
        return f"{head} could then start" + (
            f", up to {seconds(saved)} sooner" if math.isfinite(saved) else ""
        )
    if reason.code in ("shrink_for_waiting", "shrink_for_better_use") and reason.for_job:
        waiting = "was waiting and " if reason.code == "shrink_for_waiting" else ""
        return f"{name_of(reason.for_job)} {waiting}could make better use of the nodes"
    if reason.code == "shrink_for_agreement":
        return f"{name_of(reason.for_job)} waits for the nodes that this frees"
    if reason.code in ("idle_nodes", "best_use"):
        return SENTENCES[reason.code] + _left(reason.figures)
    known = SENTENCES.get(reason.code)
    if known is not None:
        return known
    # A policy of the user's own: its code is all there is to say.
    text = plain(reason.code.replace("_", " "))
    return f"{text} (for {name_of(reason.for_job)})" if reason.for_job else text


def _left(figures: Mapping[str, float]) -> str:
    """How long the job still took, as far as anybody knew."""
    if "remaining_s" in figures:
        return f", and it had {seconds(figures['remaining_s'])} to go"
    if "estimated_s" in figures:
        return f", and by its estimate it had {seconds(figures['estimated_s'])} to go"
    return ""


def cause(error: str, exit_code: int | None = None) -> str:
    """Why a job ended, in one line: the first of its error, and a hint where that means more than it says."""
    first = shorten(next(iter(error.strip().splitlines()), ""), CAUSE_CHARACTERS)
    if exit_code != BUS_ERROR and not re.search(r"\bsignal 7\b", error):
        return first
    return f"{first}; {BUS_HINT}" if first else BUS_HINT


def details(error: str) -> list[str]:
    """The lines of a job's error after the first: what the job printed last, and the like."""
    return [plain(line.expandtabs()) for line in error.strip().splitlines()[1:]]


def plain(text: str) -> str:
    """One printable line: no control characters, which could move a terminal's cursor or forge a line."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shorten(text: str, width: int) -> str:
    """``plain`` text of at most ``width`` characters."""
    text = plain(text)
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def seconds(value: float) -> str:
    """A time with three significant digits and a unit that suits it: 31 ms, 4.27 s, 62.0 s, 1 h 03 min."""
    if not math.isfinite(value):
        return "unknown"
    size = abs(value)
    if size == 0:
        return "0 s"
    if size < 0.9995:
        milli = value * 1000
        return f"{milli:.0f} ms" if abs(milli) >= 9.95 else f"{milli:.2g} ms"
    for least, digits in ((9.995, 2), (99.95, 1), (999.5, 0)):
        if size < least:
            return f"{value:.{digits}f} s"
    minutes = round(value / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours / 24:.1f} days"


def alike(a: float, b: float) -> tuple[str, str]:
    """Two times to be compared: in one unit, and told apart if they differ."""
    one, other = seconds(a), seconds(b)
    mixed = one.endswith(" s") != other.endswith(" s")
    if mixed and max(a, b) < 7200 and min(a, b) >= 1:
        one, other = f"{a:,.0f} s", f"{b:,.0f} s"
    if one == other and a != b and max(a, b) < 7200:
        one, other = f"{a:,.2f} s", f"{b:,.2f} s"
    return one, other


def awake(slots: Mapping[int, int]) -> str:
    """How many ranks of groups are awake: ``1 rank of group 2, 2 ranks of group 3``."""
    return ", ".join(f"{count(ranks, 'rank')} of group {group}" for group, ranks in slots.items())


def percent(share: float) -> str:
    """A share as a percentage: one decimal below ten per cent, none above."""
    value = abs(share) * 100
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"
