"""What a run keeps in its directory for the controller that comes after this one."""

from __future__ import annotations

import secrets
from pathlib import Path

from pliant.launch.agent import SECRET
from pliant.launch.starter import write_secret


def kept_secret(runtime: Path) -> bytes:
    """The secret of a run that outlives its controllers: that of the file, which is made if there is none."""
    path = runtime / SECRET
    if not path.exists():
        write_secret(path, secrets.token_hex(16))
    return path.read_bytes()
