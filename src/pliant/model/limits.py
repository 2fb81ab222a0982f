"""What is too large to be meant: each limit in one place, checked before anything is expanded or started."""

from __future__ import annotations

import math
import unicodedata

MOST_NODES = 1 << 20
"""Of a simulated machine, and of what a job may ask for: more than any machine has."""
MOST_HOSTS = 1 << 16
"""Names that one host list may stand for."""
HOST_CHARACTERS = 253
"""Of a node's name, as of any host's."""
NOTES, NOTE_CHARACTERS = 100, 2000
"""What is kept of what a job has found that its user should know."""
LIVE_NODES = 4096
"""Of a live cluster."""
LIVE_SLOTS = 256
"""Of a node of a live cluster: each is a process of a job, and a descriptor of the node's agent."""
BATCH_JOBS = 100_000
"""Of a batch, those that ``count`` stands for among them."""
REQUEUES = 100
"""A job that its nodes have ended is submitted again at most so often. If it writes checkpoints, only losses since the
last one count."""
ARRAY_ELEMENTS = 10_000
"""Of one array of a batch."""
GENERATED_JOBS = 10_000_000
"""Of a workload that is made up."""
ANSWER_BYTES = 1 << 26
"""Of one answer of a policy in a process of its own: a million decisions."""
LOG = ".log"
"""What the name of a job's output ends in, behind the job's name."""
NAME_BYTES = 255 - len(LOG)
"""Of a job's name in UTF-8: it also names a file, and file systems allow 255."""
LATEST_S = 1e12
"""Of a time of submission: 30,000 years, and a double still tells a ten-thousandth of a second apart there. What is
later is no number of seconds, but of nanoseconds since 1970, say."""
DIGITS = 18
"""Of a number that a user writes: what has more is no count of anything."""

_UNSEEN = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's categories of control characters, lone surrogates, and separators of lines and paragraphs."""


def name_problem(name: str) -> str | None:
    """Why no job can be called ``name``, or None."""
    if not name or "/" in name or name in (".", ".."):
        return "it also names the file of the job's output; leave out '/'"
    if bad := [character for character in name if _unseen(character)]:
        return f"it also names the file of the job's output; leave out the control character {bad[0]!r}"
    if (size := len(name.encode())) > NAME_BYTES:
        return (
            f"it has {size:,} bytes, and the most is {NAME_BYTES}: it also names the file of the job's output"
        )
    return None


def as_name(text: str) -> str:
    """What of ``text`` can be a job's name."""
    seen = "".join("_" if each == "/" or _unseen(each) else each for each in text)
    name = seen.encode()[:NAME_BYTES].decode(errors="ignore")
    return name if name_problem(name) is None else "job"


def _unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN


def as_number(text: str) -> float:
    """The number that ``text`` stands for; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def whole(text: str) -> int | None:
    """The number that decimal digits stand for, or None where ``text`` is anything else, or too long for one."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS else None
