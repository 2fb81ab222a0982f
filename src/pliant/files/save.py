"""Writing reports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def save(contents: Mapping[Path, bytes]) -> None:
    """Write the files, all of them or none: they are drafted beside their places first, so that a full disk
    leaves what was there before. What is no regular file, a pipe for one, is written to as it is. Raises
    OSError."""
    drafts: dict[Path, Path] = {}
    try:
        for number, (path, content) in enumerate(contents.items()):
            place = path.resolve()
            if place.exists() and not place.is_file():
                place.write_bytes(content)
                continue
            draft = place.with_name(f".pliant-{os.getpid()}-{number}")
            drafts[draft] = place
            draft.write_bytes(content)
        for draft, place in drafts.items():
            draft.replace(place)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
