"""What resizes cost, by name or from a file.

A cost file is JSON: the coefficients in seconds under ``cost``; what else it holds, such as their standard
errors, is for people.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from pliant.model.errors import BatchError
from pliant.model.keys import keyed
from pliant.plan.cost import INSTANT, ResizeCost

NAMED_COSTS = {"default": ResizeCost(), "none": INSTANT}
"""Costs that need no file; with none, nothing takes time."""


def read_cost(name: str) -> ResizeCost:
    """The costs of ``name``: one of ``NAMED_COSTS``, a cost file, or ``start_s=60,blocked_s=2``. BatchError says what
    is wrong."""
    if name in NAMED_COSTS:
        return NAMED_COSTS[name]
    if "=" in name and not Path(name).exists():
        return _of_text(name)
    wrong = f"cost: {name}:"
    try:
        text = Path(name).read_bytes()
    except OSError as error:
        raise BatchError(
            f"{wrong} cannot be read: {error.strerror or error}; give a file that pliant calibrate --out "
            f"has written, or one of {', '.join(NAMED_COSTS)}"
        ) from None
    try:
        read = msgspec.json.decode(text, type=_CostFile).cost
    except msgspec.ValidationError as error:
        raise BatchError(f"{wrong} is no cost file: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BatchError(f"{wrong} is no JSON: {error}") from None
    return _checked(read, wrong)


def _of_text(text: str) -> ResizeCost:
    """``start_s=60,blocked_s=2``: some coefficients, the others by default."""
    keys = dict.fromkeys(ResizeCost.__struct_fields__, False)
    stated: dict[str, float] = {}
    for key, number in keyed(text, keys, "cost:", "start_s=60,blocked_s=2").items():
        try:
            stated[key] = float(number)
        except ValueError:
            raise BatchError(f"cost: {key}={number} is no number of seconds; write {key}=1.5") from None
    return _checked(ResizeCost(**stated), f"cost: {text}:")


def _checked(cost: ResizeCost, wrong: str) -> ResizeCost:
    for key, value in msgspec.structs.asdict(cost).items():
        if not 0 <= value < math.inf:
            raise BatchError(f"{wrong} {key} is {value:g}; it must be 0 or more seconds")
    return cost


class _CostFile(msgspec.Struct, frozen=True):
    """What the reader of a cost file looks at; a coefficient that is not there has its default."""

    cost: ResizeCost
