"""Where the traces of well-known machines are: in a folder that the user names."""

from __future__ import annotations

import os
from pathlib import Path

from pliant.model.errors import TraceError

TRACES = "PLIANT_TRACES"
"""The environment variable that names their folder."""


def find_trace(name: str, folder: Path | None = None) -> Path:
    """The trace ``name`` in ``folder``, else in that of ``TRACES``; TraceError says where it is not."""
    named = os.environ.get(TRACES)
    place = folder or (Path(named) if named else None)
    if place is None:
        raise TraceError(f"the trace {name}: where is it? Name its folder by --traces or in {TRACES}")
    if not (place / name).is_file():
        raise TraceError(f"the trace {name} is not in {place}; name its folder by --traces or in {TRACES}")
    return place / name
