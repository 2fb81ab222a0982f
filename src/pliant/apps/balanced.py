"""What the task programs share: a bag worked on at all places, the options that all have, and how results are said."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TypeVar

from pliant import apgas
from pliant.apgas import glb
from pliant.apgas.bag import Bag, Result
from pliant.model.errors import PliantError

ResultT = TypeVar("ResultT", bound=Result)


def run(
    bag: Bag[ResultT], result: ResultT, chunk: int, told: Callable[[], str], *, resilient: bool = False
) -> dict[str, object]:
    """Work at all places until no task is left, ``chunk`` tasks at a time, and add what was found to
    ``result``. The job's result is what ``told`` makes of it. Does not return at other places than 0.

    Returns the ``places`` that there were at the end, ``work_s``, the seconds that it took with all places of
    the start there, ``cpu_s``, the workers' processor time, and the ``statistics`` of each place that took part.
    """
    figures: dict[str, object] = {}

    def main() -> str:
        begin = time.perf_counter()
        outcome = glb.run(bag, result, settings=glb.Settings(grain=chunk, resilient=resilient))
        figures["places"] = len(apgas.places())
        figures["work_s"] = round(time.perf_counter() - begin, 6)
        figures["cpu_s"] = round(sum(each.cpu_s for each in outcome.statistics.values()), 6)
        figures["statistics"] = {place: asdict(each) for place, each in outcome.statistics.items()}
        return told()

    apgas.run(main)
    return figures


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
    options.add_argument(
        "--resilient", action="store_true", help="go on when a place dies, with the exact result"
    )
    options.add_argument("--json", action="store_true", help="print all figures as one JSON object")
    return options


def compute(
    options: argparse.Namespace,
    bag: Bag[ResultT],
    result: ResultT,
    told: Callable[[], str],
    bare: Callable[[], ResultT],
) -> dict[str, object]:
    """Do it as the options say, by the balanced bag or by the ``bare`` kernel. Returns the ``seconds`` of wall time
    that it took, the start of places included, and what ``run`` returns."""
    begin, used = time.perf_counter(), time.thread_time()
    if not options.serial:
        figures = run(bag, result, options.chunk, told, resilient=options.resilient)
        return {"seconds": round(time.perf_counter() - begin, 6), **figures}
    result.merge(bare())
    seconds = round(time.perf_counter() - begin, 6)
    return {"seconds": seconds, "places": 1, "work_s": seconds, "cpu_s": round(time.thread_time() - used, 6)}


def say(facts: Mapping[str, object], result: str, *, as_json: bool) -> None:
    """The last line of output is the result, or all that there is to tell as JSON."""
    if as_json:
        told = json.dumps(facts)
    else:
        words = (
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
            for name, value in facts.items()
            if not isinstance(value, dict)
        )
        told = f"{', '.join(words)}\n{result}"
    print(told, flush=True)  # noqa: T201


def main(program: Callable[[], None]) -> None:
    """Run it; what Pliant refuses is one line, without a traceback.

    A module that is run as ``__main__`` is imported under its own name: else its bags would travel by value,
    with all that their code refers to.
    """
    spec = sys.modules["__main__"].__spec__
    if program.__module__ == "__main__" and spec is not None:
        program = importlib.import_module(spec.name).main
    try:
        program()
    except PliantError as error:
        raise SystemExit(f"error: {error}") from error
