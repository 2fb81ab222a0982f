"""What a policy remembers, and how changes to it are taken up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Memory = dict[str, Any]


def remembered(memory: Memory, said: Memory, *, merge: bool) -> Memory:
    """What is remembered from then on: what is ``said``, or ``memory`` with these changes."""
    return merged(memory, said) if merge else said


def merged(memory: Mapping[str, Any], changes: Mapping[str, Any]) -> Memory:
    """``memory`` with ``changes``, as RFC 7396 has it: dicts are merged, and None removes. Neither of them changes, so
    that whoever has either may keep it."""
    result = dict(memory)
    for key, change in changes.items():
        if change is None:
            result.pop(key, None)
        elif isinstance(change, dict):
            before = result.get(key)
            result[key] = merged(before if isinstance(before, dict) else {}, change)
        else:
            result[key] = change
    return result
