"""Where a command is called."""

from __future__ import annotations

import os

from pliant.model.errors import PliantError


def current_directory() -> str:
    """Where this process is; PliantError if that directory is gone."""
    try:
        return os.getcwd()  # noqa: PTH109 - as text
    except OSError as error:
        raise PliantError(
            f"the current directory is gone ({error.strerror}); go to one that exists"
        ) from None
