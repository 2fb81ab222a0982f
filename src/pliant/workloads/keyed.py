"""Options that are written ``key=value,key=value``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pliant.model.errors import BatchError


def keyed(
    text: str, keys: Mapping[str, bool], where: str, unknown: Callable[[str], str], write: str
) -> dict[str, str]:
    """The values by their ``keys``, those that are needed True. BatchError begins with ``where`` and ends with what to
    ``write``: for another key, of which ``unknown`` says it, one that is there twice, and one that is missing."""
    given: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = (word.strip() for word in part.partition("="))
        if key not in keys:
            raise BatchError(f"{where} {unknown(key)}; {write}")
        if key in given:
            raise BatchError(f"{where} {key} is there twice; {write}")
        given[key] = value
    for key, needed in keys.items():
        if needed and key not in given:
            raise BatchError(f"{where} {key} is missing; {write}")
    return given
