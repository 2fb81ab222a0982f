"""The commands and programs of README.md, which work from the top of a clone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
OURS = re.compile(r"^(?:[A-Z_]+=\S+ )?\.venv/bin/")
ELSEWHERE = ("--hosts", "--hostfile", "JOB", " queue", " nodes add", " doctor", " reproduce ")
"""In commands that need a cluster, a run that goes on, an empty machine or a quarter of an hour."""
QUICK = (" simulate ", " calibrate ", " policies", " --dry-run")


def commands() -> list[str]:
    """All that stand in blocks, without their comments, and all within sentences."""
    lines = [line for language, text in BLOCKS if not language for line in text.splitlines()]
    lines += re.findall(
        r"`([^`\n]*\.venv/bin/[^`\n]*)`", re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    )
    return [re.sub(r"\s+# .*", "", line) for line in lines if OURS.match(line)]


def quick() -> list[str]:
    return [line for line in commands() if any(word in f"{line} " for word in QUICK)]


def live() -> list[str]:
    """Those that start processes of their own, on this machine."""
    return [
        line for line in commands() if line not in quick() and not any(word in line for word in ELSEWHERE)
    ]


def clone(place: Path) -> Path:
    """``place`` as the top of a clone that may be written to, with the environment of this interpreter as .venv."""
    for name in ("examples", "src", "docs"):
        (place / name).symlink_to(ROOT / name)
    (place / ".venv").symlink_to(sys.prefix)
    return place
