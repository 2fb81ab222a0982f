"""A program of places: its result is where they are."""

from __future__ import annotations

import platform

from pliant.apgas import at, places, run


def main() -> str:
    return " ".join(at(place, platform.node) for place in places())


if __name__ == "__main__":
    run(main)
