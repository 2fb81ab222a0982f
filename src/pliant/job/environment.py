"""What the agent tells a rank through its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import NamedTuple

from pliant.model.deadlines import JOB_DEADLINE_S
from pliant.model.errors import PliantError
from pliant.model.limits import as_number
from pliant.plan.data.methods import MoveMethod

STALL_S = 600.0


class Environment(NamedTuple):
    """A rank's place under an agent. ``resize`` is 0 for a group of the job's start. ``rank`` is its number within its
    group; None in a job with MPI, which numbers its ranks itself."""

    job: int
    group: int
    node: str
    epoch: int
    resize: int
    socket: str
    token_file: str
    rank: int | None = None

    def token(self) -> str:
        """The secret that opens the session; OSError if the file cannot be read."""
        return Path(self.token_file).read_text("ascii").strip()


def read(environ: Mapping[str, str] = os.environ) -> Environment | None:
    """The rank's place, or None where no agent started it; PliantError if it is told only in part."""
    if "PLIANT_SOCKET" not in environ:
        return None
    try:
        return Environment(
            job=int(environ["PLIANT_JOB"]),
            group=int(environ["PLIANT_GROUP"]),
            node=environ["PLIANT_NODE"],
            epoch=int(environ["PLIANT_EPOCH"]),
            resize=int(environ["PLIANT_RESIZE"]),
            socket=environ["PLIANT_SOCKET"],
            token_file=environ["PLIANT_TOKEN_FILE"],
            rank=int(environ["PLIANT_RANK"]) if "PLIANT_RANK" in environ else None,
        )
    except (KeyError, ValueError) as error:
        raise PliantError(
            f"PLIANT_SOCKET is set but the rest of the agent's environment is missing or wrong: {error!r}; "
            "start the program with `pliant`, or unset PLIANT_SOCKET to run it alone"
        ) from error


def deadline_s(environ: Mapping[str, str] = os.environ) -> float:
    """How long the library waits for what has to be prompt, in seconds (PLIANT_DEADLINE)."""
    text, seconds = _seconds(environ, "PLIANT_DEADLINE", JOB_DEADLINE_S)
    if not seconds > 0:
        raise PliantError(f"PLIANT_DEADLINE is {text!r}; it must be a positive number of seconds")
    return seconds


def _seconds(environ: Mapping[str, str], name: str, default: float) -> tuple[str, float]:
    """The variable's text and number, which is NaN where it is none."""
    text = environ.get(name, "")
    return text, as_number(text) if text else default


def stall_s(environ: Mapping[str, str] = os.environ) -> float:
    """After how many seconds in one step a rank says where it is (PLIANT_STALL_S); 0 if never."""
    text, seconds = _seconds(environ, "PLIANT_STALL_S", STALL_S)
    if not 0 <= seconds < inf:
        raise PliantError(f"PLIANT_STALL_S is {text!r}; it must be a number of seconds, or 0 for never")
    return seconds


def verifies(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether all data are compared before and after each resize (PLIANT_VERIFY=1)."""
    text = environ.get("PLIANT_VERIFY", "0")
    if text not in ("", "0", "1"):
        raise PliantError(f"PLIANT_VERIFY is {text!r}; it must be 0 or 1")
    return text == "1"


def redistribution(environ: Mapping[str, str] = os.environ) -> str:
    """By which method data are redistributed (PLIANT_REDISTRIBUTE); default: p2p."""
    text = environ.get("PLIANT_REDISTRIBUTE", "") or MoveMethod.P2P
    if text not in (names := [*MoveMethod]):
        raise PliantError(f"PLIANT_REDISTRIBUTE is {text!r}; it must be one of {', '.join(names)}")
    return text


def inhibit_s(environ: Mapping[str, str] = os.environ) -> float | None:
    """The seconds of the checking inhibitor (PLIANT_INHIBIT); None where they are not said."""
    text, seconds = _seconds(environ, "PLIANT_INHIBIT", 0.0)
    if not 0 <= seconds < inf:
        raise PliantError(f"PLIANT_INHIBIT is {text!r}; it must be a number of seconds, 0 or more")
    return seconds if text else None


def inhibit_steps(environ: Mapping[str, str] = os.environ) -> int | None:
    """The steps, or calls, of the checking inhibitor (PLIANT_INHIBIT_STEPS); None where they are not said."""
    text = environ.get("PLIANT_INHIBIT_STEPS", "")
    if text and not (text.isascii() and text.isdigit()):
        raise PliantError(f"PLIANT_INHIBIT_STEPS is {text!r}; it must be a whole number of steps, 0 or more")
    return int(text) if text else None
