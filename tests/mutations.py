"""Is the world a real test? Changes one place of the source at a time, and sees whether the world notices.

    tests/mutations.py fixed [--only WORD] [--worlds N] [--workers N] [--json]
    tests/mutations.py seeded [--seed N] [--count N] [--worlds N] [--workers N] [--write] [--json]

``fixed`` makes the changes of ``pure/mutations_fixed.py``; ``seeded`` negates conditions and deletes statements of core/, live/
and protocol/, drawn by a seed, and with ``--write`` keeps the survivors in docs/mutations.md. Each is tried in a copy of
the package by ``pliant bench world``. A mutant is caught by a violation, by a crash of the command, by using up its
processor time (hung), or by the bar that at least 30 % of all resizes are done (bars). The exit code is 1 if a fixed one survives or a seeded run has caught fewer than 80 %.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent / "pure"))

from mutations_fixed import FIXED, HARMLESS
from mutations_sites import Mutation, drawn
from mutations_told import REASONS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pliant"
REPORT = ROOT / "docs" / "mutations.md"
FIRST = 8
"""How many worlds are tried first; then four times as many, and so on: most mutants break at once."""
LEAST_DONE = 0.3
"""The share of resizes that are done in sound worlds is above this."""
CPU_S = 40
CPU_PER_WORLD_S = 4
"""Processor time that a mutant may use; without a change a world takes some 0.2 s, one in a hundred 10 s."""
WALL = 20
"""So many times the processor time by the clock, for one that sleeps."""
MEMORY = 4 << 30
ENOUGH = 0.8


class Outcome(NamedTuple):
    """What became of a mutant: ``how`` is violation, crashed, hung or bars, empty if it survived; ``seed`` broke."""

    mutation: Mutation
    how: str
    what: str
    seed: int | None
    worlds: int
    seconds: float

    def line(self) -> str:
        verdict = f"caught ({self.how})" if self.how else "SURVIVED"
        return f"{verdict:18} {self.mutation.name}: {self.what[:110]}"


def attempt(mutation: Mutation, worlds: int) -> Outcome:
    """Run the world in a copy with this change; ValueError if the text to change is not there exactly once."""
    began = time.monotonic()
    changed = mutation.apply(SOURCE)
    with tempfile.TemporaryDirectory(prefix="pliant-mutant-") as folder:
        for part in ("src", "lab/src"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__"))
        Path(folder, SOURCE.relative_to(ROOT), mutation.file).write_text(changed)
        first, count = 0, FIRST
        how, what, seed = "", "", None
        seen = Counter[str]()
        while first < worlds and not how:
            count = min(count, worlds - first)
            how, what, seed = _worlds(folder, first, count, seen)
            first, count = first + count, 4 * count
        if not how and seen["done"] < LEAST_DONE * seen["offered"] + (seen["offered"] == 0):
            how, what = "bars", f"{seen['done']} of {seen['offered']} resizes were done in {first} worlds"
    return Outcome(
        mutation, how, what, seed, seed + 1 if seed is not None else first, time.monotonic() - began
    )


def _worlds(folder: str, first: int, count: int, seen: Counter[str]) -> tuple[str, str, int | None]:
    """How the copy broke in one of these worlds, what was said, and in which; nothing if it did not."""
    cpu_s = CPU_S + CPU_PER_WORLD_S * count
    paths = os.pathsep.join((f"{folder}/src", f"{folder}/lab/src"))
    command = [sys.executable, "-m", "pliant", "bench", "world", "--first", str(first), "--seeds", str(count)]
    try:
        done = subprocess.run(
            [*command, "--workers", "1", "--stop", "--json"],
            cwd=folder, env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, check=False, timeout=cpu_s * WALL,
            preexec_fn=lambda: _bound(cpu_s),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hung", f"still running after {cpu_s * WALL} s", None
    if done.returncode == 0:
        sound = json.loads(done.stdout)
        seen.update(offered=sound["resizes"], done=round(sound["resizes"] * sound["resizes_done_share"]))
        return "", "", None
    if done.returncode < 0 and "violations" not in done.stdout:
        return "hung", f"ended after {cpu_s} s of processor time", None
    try:
        broken = json.loads(done.stdout)["violations"][0]
    except (ValueError, KeyError, IndexError):
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return "crashed", last, None
    return "violation", " ".join(str(broken["what"]).split()), broken["seed"]


def _bound(cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def attempts(mutations: Iterable[Mutation], worlds: int, workers: int) -> Iterator[Outcome]:
    with ThreadPoolExecutor(workers) as executor:
        for outcome in executor.map(lambda mutation: attempt(mutation, worlds), mutations):
            print(outcome.line(), file=sys.stderr, flush=True)
            yield outcome


def figures(outcomes: list[Outcome]) -> dict[str, object]:
    return {
        "mutants": len(outcomes),
        "caught": sum(bool(each.how) for each in outcomes),
        **{how: sum(each.how == how for each in outcomes) for how in ("violation", "crashed", "hung", "bars")},
        "survived": [each.mutation.name for each in outcomes if not each.how],
        "outcomes": [
            {
                "name": each.mutation.name, "how": each.how, "what": each.what, "seed": each.seed,
                "worlds": each.worlds, "seconds": round(each.seconds, 1),
            }
            for each in outcomes
        ],
    }  # fmt: skip


def write(outcomes: list[Outcome]) -> None:
    """The table of docs/mutations.md anew: what survived, each with the reason that is known for it. What stands above
    the table stays, and names the figures of the run."""
    survivors = [each.mutation for each in outcomes if not each.how]
    rows = [
        f"| `{each.place}` | `{each.shown}` | {REASONS.get(each.key, 'not explained yet')} |"
        for each in survivors
    ]
    above, heading, _ = REPORT.read_text().partition("## Those that survive\n")
    table = "\n| place | change | why |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    REPORT.write_text(f"{above}{heading}{table}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Change one place of the source and see whether the world notices."
    )
    parser.add_argument("which", choices=("fixed", "seeded"))
    parser.add_argument("--only", default="", help="fixed: those whose name has this word in it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--worlds", type=int, default=300, help="how many worlds a mutant has to survive")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="seeded: write docs/mutations.md")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    fixed = given.which == "fixed"
    named = [each for each in FIXED if given.only in each.name]
    mutations = named if fixed else drawn(SOURCE, given.seed, given.count)
    if not mutations:
        parser.error(f"--only {given.only}: there is no such mutation")
    outcomes = list(attempts(mutations, given.worlds, given.workers))
    if given.write and not fixed:
        write(outcomes)
    found = figures(outcomes)
    print(json.dumps(found) if given.json else f"{found['caught']} of {found['mutants']} caught")
    survived = [each for each in outcomes if not each.how and each.mutation.name not in HARMLESS]
    caught = len(outcomes) - len(survived)
    sys.exit(bool(survived) if fixed else caught < ENOUGH * len(outcomes))


if __name__ == "__main__":
    main()
