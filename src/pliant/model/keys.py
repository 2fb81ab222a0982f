"""The keys that users write, checked: those of a table of TOML, and of an option ``key=value,key=value``. A BatchError
begins with ``where`` they stand, and names the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from pliant.model.durations import duration
from pliant.model.errors import BatchError
from pliant.model.words import nearest

LARGEST = 1e300
"""Of seconds, weights and megabytes: what is below can be multiplied."""


def known(data: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in data:
        if key not in keys:
            near = get_close_matches(key, keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(keys)}"
            raise BatchError(f"{where}: unknown key {key!r}; {hint}")


def table_of(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BatchError(f"{where}: expected a table of keys, got {value!r}")
    return value


def text_of(data: Mapping[str, Any], key: str, where: str, default: str) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise BatchError(f"{where}: {key}: expected a text, got {value!r}")
    return value


def flag_of(data: Mapping[str, Any], key: str, where: str) -> bool:
    value = data.get(key, False)
    if not isinstance(value, bool):
        raise BatchError(f"{where}: {key}: expected true or false, got {value!r}")
    return value


def count_of(data: Mapping[str, Any], key: str, where: str, default: int, most: int) -> int:
    value = data.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BatchError(f"{where}: {key}: expected a whole number of 1 or more, got {value!r}")
    if value > most:
        raise BatchError(f"{where}: {key}: {value:,} is too many; the most is {most:,}")
    return value


def cut(text: str) -> str:
    """A user's text for a message, no longer than a line."""
    return text if len(text) <= 60 else text[:59] + "…"


def seconds_of(data: Mapping[str, Any], key: str, where: str, default: float | None) -> float | None:
    return amount_of(data, key, where, "seconds", default)


def time_of(data: Mapping[str, Any], key: str, where: str, default: float) -> float:
    """Seconds: a number of them, or a text such as 30min or 1:30:00."""
    value = data.get(key, default)
    if isinstance(value, str):
        return duration(value, f"{where}: {key}", or_none=True, plain=True)
    return amount_of(data, key, where, "seconds", default) or 0.0


def amount_of(
    data: Mapping[str, Any], key: str, where: str, unit: str, default: float | None
) -> float | None:
    value = data.get(key, default)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        raise BatchError(f"{where}: {key}: expected {unit}, 0 or more, got {value!r}")
    return float(value)


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
