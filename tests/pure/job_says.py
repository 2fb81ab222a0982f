"""What the root of a job says, as the core hears it; the core goes by no epoch."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.core.events import RootSaid
from pliant.model.size_request import SizeRequest
from pliant.protocol import messages as m
from pliant.protocol.phases import Phase


def malleable(job: int, *, on: bool, most: int = 0) -> RootSaid:
    return RootSaid(job, m.Malleable(0, on, most))


def wants(job: int, wish: SizeRequest, *, open: bool = False) -> RootSaid:  # noqa: A002 - the message's word
    return RootSaid(job, m.Want(0, wish.bounds, open, wish.prefers))


def accepted(job: int, resize: int) -> RootSaid:
    return RootSaid(job, m.Accept(0, resize))


def declined(job: int, resize: int, reason: str = "", *, late: bool = False) -> RootSaid:
    return RootSaid(job, m.Decline(0, resize, reason, late))


def reached(job: int, resize: int, phase: Phase) -> RootSaid:
    return RootSaid(job, m.Reached(0, resize, phase))


def resized(
    job: int,
    resize: int,
    released: tuple[int, ...] = (),
    blocked_s: float = 0.0,
    phases: Mapping[str, float] = {},
    *,
    root: int = 0,
) -> RootSaid:
    return RootSaid(job, m.Done(0, resize, root, released, dict(phases), blocked_s))


def failed(job: int, resize: int, error: str = "", *, late: bool = False) -> RootSaid:
    return RootSaid(job, m.Failed(0, resize, error, late))


def progressed(job: int, fraction: float, pace_s: float = 0.0, paced_s: float = 0.0) -> RootSaid:
    return RootSaid(job, m.Progress(0, fraction, pace_s, paced_s))
