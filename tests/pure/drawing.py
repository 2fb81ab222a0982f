"""How many examples a property is tried with."""

import os

USUAL = 60
SHARE = int(os.environ.get("PLIANT_EXAMPLES", str(USUAL))) / USUAL


def examples(count: int) -> int:
    """So many where PLIANT_EXAMPLES has its default, 60; with another value more or fewer, in proportion."""
    return max(1, round(count * SHARE))
