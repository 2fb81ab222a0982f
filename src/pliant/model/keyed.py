"""Options that are written ``key=value,key=value``."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pliant.model.errors import BatchError
from pliant.model.words import nearest


def keyed(
    text: str, keys: Mapping[str, bool], where: str, write: str, others: Collection[str] = ()
) -> dict[str, str]:
    """The values by their ``keys``, of which those with True are needed.

    Raises BatchError, which begins with ``where`` and ends with what to ``write``: for an unknown key, with the nearest
    one, also of ``others`` that are no keys; for one that is there twice, has no value, or is missing.
    """
    given: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = (word.strip() for word in part.partition("="))
        if key in others:
            raise BatchError(f"{where} {key!r} cannot stand here; write {write}")
        if key not in keys:
            raise BatchError(f"{where} there is no {key!r}{nearest(key, [*keys, *others])}; write {write}")
        if not value:
            raise BatchError(f"{where} {key} has no value; write {write}")
        if key in given:
            raise BatchError(f"{where} {key} is there twice; write {write}")
        given[key] = value
    for key, needed in keys.items():
        if needed and key not in given:
            raise BatchError(f"{where} {key} is missing; write {write}")
    return given
