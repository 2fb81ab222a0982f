"""Parameters of policies as users write them, behind the name: ``marginal:payback=5``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from pliant.model.errors import PolicyError
from pliant.model.words import nearest
from pliant.policy.view import Policy, half_life_s, provisions, rebalances


def split(text: str) -> tuple[str, dict[str, str]]:
    """The name, and what is said behind it as ``:PARAMETER=VALUE``, each once. PolicyError."""
    name, *parts = text.split(":")
    while parts and "=" not in parts[0]:
        name += f":{parts.pop(0)}"  # a class in a file
    said: dict[str, str] = {}
    for part in parts:
        key, equals, value = (each.strip() for each in part.partition("="))
        if not (key and equals and value):
            raise PolicyError(f"policy {text!r}: {part!r} is no parameter; write {name}:PARAMETER=VALUE")
        if key in said:
            raise PolicyError(f"policy {text!r}: {key} is said twice")
        said[key] = value
    return name, said


def values(kind: Callable[..., object], name: str, said: Mapping[str, str]) -> dict[str, Any]:
    """What ``kind`` is to be made with, of the types that its defaults have. PolicyError names what is wrong."""
    known = {key: each for key, each in signature(kind).parameters.items() if each.kind not in _ANY}
    for key in said:
        if key not in known:
            has = nearest(key, known) if known else ": it has none"
            raise PolicyError(f"policy {name!r} has no parameter {key!r}{has}")
    return {key: _value(name, key, text, known[key].default) for key, text in said.items()}


class NamedPolicy:
    """``policy`` by a name that tells its parameters."""

    def __init__(self, policy: Policy, name: str) -> None:
        self.name = name
        self.rebalances = rebalances(policy)
        self.half_life_s = half_life_s(policy)
        self.provisions = provisions(policy)
        self.decide = policy.decide


_ANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
"""Parameters of classes that were compiled look as if they could not be named."""


def _value(name: str, key: str, text: str, default: object) -> Any:
    """``text`` as what ``default`` is; where that is no help, a number if it is one."""
    wrong = f"policy {name!r}: {key} is {text!r}"
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise PolicyError(f"{wrong}; it must be true or false")
        return text.lower() == "true"
    if isinstance(default, str):
        return text
    try:
        number: float = int(text) if _whole(text) else float(text)
    except ValueError:
        if isinstance(default, int | float):
            raise PolicyError(f"{wrong}; it must be a number, as in {key}={default}") from None
        return text
    if not math.isfinite(number):
        raise PolicyError(f"{wrong}; it must be a finite number")
    if isinstance(default, int) and not isinstance(number, int):
        raise PolicyError(f"{wrong}; it must be a whole number, as in {key}={default}")
    if isinstance(default, int | float) and default >= 0 > number:
        raise PolicyError(f"{wrong}; it must be 0 or more")
    return float(number) if isinstance(default, float) else number


def _whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
