"""What the task programs share: a bag worked on at all places, the options that all have, and how results are said."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from pliant import apgas
from pliant.apgas import glb
from pliant.apgas.bag import Bag, Result
from pliant.model.errors import PliantError

ResultT = TypeVar("ResultT", bound=Result)


def run(bag: Bag[ResultT], result: ResultT, chunk: int, told: Callable[[], str]) -> int:
    """Work at all places until no task is left, ``chunk`` tasks at a time, and add what was found to
    ``result``; returns how many places there were at the end. The job's result is what ``told`` makes of it.
    Does not return at other places than 0.
    """
    places: list[int] = []

    def main() -> str:
        outcome = glb.run(bag, result, settings=glb.Settings(grain=chunk))
        places.append(len(outcome.statistics))
        return told()

    apgas.run(main)
    return places[0]


def whole(lowest: int, highest: int) -> Callable[[str], int]:
    """A type for argparse: a whole number within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {lowest:,} to {highest:,}")
        return number

    return parse


def parser(documentation: str | None, chunk: int | None, task: str) -> argparse.ArgumentParser:
    """The options that all have, under the first line of the module's documentation. Without ``chunk`` the default
    depends on the others.
    """
    default = "by the size" if chunk is None else f"{chunk}"
    options = argparse.ArgumentParser(description=(documentation or "").partition("\n")[0])
    options.add_argument(
        "--chunk", type=whole(1, 2**40), default=chunk,
        help=f"{task} to work on before looking whether others need some (default: {default})",
    )  # fmt: skip
    options.add_argument("--serial", action="store_true", help="compute with the kernel alone, without a bag")
    options.add_argument("--json", action="store_true", help="print all figures as one JSON object")
    return options


def timed(compute: Callable[[], int]) -> dict[str, object]:
    """``seconds`` of wall time that it took, and the ``places`` that it returns."""
    begin = time.perf_counter()
    places = compute()
    return {"seconds": round(time.perf_counter() - begin, 6), "places": places}


def say(facts: Mapping[str, object], result: str, *, as_json: bool) -> None:
    """The last line of output is the result, or all that there is to tell as JSON."""
    if as_json:
        told = json.dumps(facts)
    else:
        words = (
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
            for name, value in facts.items()
        )
        told = f"{', '.join(words)}\n{result}"
    print(told, flush=True)  # noqa: T201


def main(program: Callable[[], None]) -> None:
    """Run it; what Pliant refuses is one line, without a traceback."""
    try:
        program()
    except PliantError as error:
        raise SystemExit(f"error: {error}") from error
