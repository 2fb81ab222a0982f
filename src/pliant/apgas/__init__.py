"""Places, finish and asynchronous tasks that may run anywhere, in programs that grow and shrink while they run.

The constructs are X10's and APGAS for Java's (Tardieu, "The APGAS library", 2015; Finnerty et al., 2024). A program
hands its main function to ``run``; the other places wait for tasks.
"""

from __future__ import annotations

from pliant.apgas.api import (
    GlobalRef,
    Place,
    PlaceLocalObject,
    async_at,
    async_local,
    at,
    finish,
    here,
    immediate_async_at,
    place,
    places,
    uncounted_async_at,
)
from pliant.apgas.collecting import CollectingFinish, collecting_finish, offer
from pliant.apgas.errors import BadPlaceException, DeadPlaceException, MultipleException, RemoteError
from pliant.apgas.executor import PlaceExecutor
from pliant.apgas.losses import LossHandler, is_dead, on_lost_place
from pliant.apgas.malleable.elastic import LoadFollower, follow_load
from pliant.apgas.malleable.handler import (
    MalleableHandler,
    define_malleable_handler,
    disable_malleable_handler,
    offer_places,
    request_places,
)
from pliant.apgas.program import run
from pliant.apgas.team import Team

__all__ = [
    "BadPlaceException",
    "CollectingFinish",
    "DeadPlaceException",
    "GlobalRef",
    "LoadFollower",
    "LossHandler",
    "MalleableHandler",
    "MultipleException",
    "Place",
    "PlaceExecutor",
    "PlaceLocalObject",
    "RemoteError",
    "Team",
    "async_at",
    "async_local",
    "at",
    "collecting_finish",
    "define_malleable_handler",
    "disable_malleable_handler",
    "finish",
    "follow_load",
    "here",
    "immediate_async_at",
    "is_dead",
    "offer",
    "offer_places",
    "on_lost_place",
    "place",
    "places",
    "request_places",
    "run",
    "uncounted_async_at",
]
