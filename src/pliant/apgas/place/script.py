"""What of the program's script all places have. Each has run it from its start up to ``run``: so its functions and
classes travel by name, and functions that are made later use the script's variables of the place where they run."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

_made: dict[str, object] = {}
"""The functions and classes that the script had when it came to ``run``, by name."""
_noted = False


def note() -> None:
    """The script has come to ``run``."""
    global _noted  # noqa: PLW0603 - a process has one script, and comes to ``run`` of it
    _made.clear()
    _made.update(
        {name: value for name, value in _variables().items() if isinstance(value, FunctionType | type)}
    )
    _noted = True


def is_everywhere(value: Any) -> bool:
    """Whether this function or class is one that all places have under its name."""
    if getattr(value, "__module__", None) != "__main__":
        return False
    first, *rest = str(getattr(value, "__qualname__", "")).split(".")
    found = _made.get(first)
    if found is None or _variables().get(first) is not found:
        return False
    for name in rest:
        found = getattr(found, name, None)
    return found is value


def is_part(value: Any) -> bool:
    """Whether this is a function of the script, whichever way it was made."""
    return _noted and isinstance(value, FunctionType) and value.__globals__ is _variables()


def made(code: Any, name: Any, defaults: Any, closure: Any) -> FunctionType:
    """A function of another place's script, as one of this place's."""
    return FunctionType(code, _variables(), name, defaults, closure)


def _variables() -> dict[str, Any]:
    return vars(sys.modules["__main__"])
