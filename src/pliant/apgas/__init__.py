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
from pliant.apgas.errors import BadPlaceException, DeadPlaceException, MultipleException, RemoteError
from pliant.apgas.executor import PlaceExecutor
from pliant.apgas.malleable.elastic import LoadFollower, follow_load
from pliant.apgas.malleable.handler import (
    MalleableHandler,
    define_malleable_handler,
    disable_malleable_handler,
    offer_places,
    request_places,
)
from pliant.apgas.program import run

__all__ = [
    "BadPlaceException",
    "DeadPlaceException",
    "GlobalRef",
    "LoadFollower",
    "MalleableHandler",
    "MultipleException",
    "Place",
    "PlaceExecutor",
    "PlaceLocalObject",
    "RemoteError",
    "async_at",
    "async_local",
    "at",
    "define_malleable_handler",
    "disable_malleable_handler",
    "finish",
    "follow_load",
    "here",
    "immediate_async_at",
    "offer_places",
    "place",
    "places",
    "request_places",
    "run",
    "uncounted_async_at",
]
