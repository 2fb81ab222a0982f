"""Newcomers of one job after the other are killed at random moments of an expansion; not collected by pytest.

    python tests/kills.py --kills 200 --seed 1 [--netmod ofi] [--nodes 3] [--slots 1] [--aim POINT]

One job is told to grow, over and over, and its newcomers, one rank or all of them, end at a moment that the seed draws:
a third of them from their start on, a third when they have been told the port, a third at a point of the way (with
``--aim``, all at that point). Prints, by what they had come to then, how often the job went on. A job that has not is
followed by another.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).with_name("live")))

from harness import PLIANT, PROGRAMS, BatchRun, Failure, is_right, job

from pliant.core import records as r

POINTS = ("start", "register", "join", "connect", "connected", "merge", "merged", "data", "settle", "step")
START_S = 0.6
JOIN_S = 0.02
POINT_S = 0.002
"""The longest that the three kinds of kills come after what they are timed from."""
DEADLINE_S = 6
LOST = "LOST"
PATIENCE_S = 60.0


def plan(random: Random, slots: int, aim: str) -> str:
    """Who dies, from which point on, and after how many seconds."""
    who = random.choice(["all", *map(str, range(slots))])
    kind = 2 if aim else random.randrange(3)
    point = ("start", "connect", aim or random.choice(POINTS[3:9]))[kind]
    return f"{who} {point} {random.uniform(0, (START_S, JOIN_S, POINT_S)[kind]):.6f}"


class Trial:
    """One job, whose newcomers are killed until it is gone."""

    def __init__(self, place: Path, runtime: Path, options: argparse.Namespace) -> None:
        self.plan, self.flag = place / "plan", place / "flag"
        self.plan.write_text("none start 0")
        env = f'{{ MPIR_CVAR_CH4_NETMOD = "{options.netmod}", PLIANT_DEADLINE = "{DEADLINE_S}" }}'
        words = f"python {PROGRAMS / 'killed.py'} {self.flag} {self.plan}"
        self.run = BatchRun(
            place, runtime,
            f'nodes = {options.nodes}\nslots = {options.slots}\npolicy = "easy"\nresize_deadline_s = 20.0',
            job("hit", words, f"{{ min = 1, max = {options.nodes} }}\nenv = {env}", walltime=36000),
        )  # fmt: skip
        self.most = options.nodes
        self.resizes = 0
        self.read = 0
        self.run.wait_for(r.JobMalleable)

    def next(self, wanted: Callable[[r.Record], bool]) -> r.Record:
        """The first record that is wanted of those that have not been read: a journal of many kills is long."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with (self.run.out / "records.ndjson").open("rb") as journal:
                journal.seek(self.read)
                lines = [line for line in journal if line.endswith(b"\n")]
            for line in lines:
                header, self.read = self.read == 0, self.read + len(line)
                if not header and wanted(record := r.from_line(line)):
                    return record
            time.sleep(0.1)
        raise Failure(f"not within {PATIENCE_S:g} s: {self.run.story()[-2000:]}")

    def order(self, size: int) -> r.Record:
        """How a resize ends; its nodes are clean then."""
        self.resizes += 1
        words = [PLIANT, "resize", "hit", str(size)]
        said = subprocess.run(
            words, env=self.run.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if said.returncode and not any(isinstance(record, r.JobEnded) for record in self.run.records()):
            raise Failure(f"the order fails: {said.stderr}")
        last = self.next(partial(ends_job, self.resizes))
        if isinstance(last, r.ResizeFailed) or (isinstance(last, r.ResizeDone) and last.released):
            self.next(lambda record: isinstance(record, r.NodesClean))
        return last

    def kill(self, words: str) -> tuple[str, str]:
        """What the newcomers had come to when one was killed ("none": nobody was), and what became of the resize."""
        self.plan.write_text(words)
        for old in self.plan.parent.glob("plan.*"):
            old.unlink()
        last = self.order(self.most)
        came = [path.read_text().strip() for path in self.plan.parent.glob("plan.*")]
        reached = max((POINTS.index(each) for each in came if each), default=0)
        if isinstance(last, r.ResizeDone):
            # Its time may have come behind its last point, when it was a part of the job.
            back = isinstance(self.order(1), r.ResizeDone)
            return ("step", "joined, and lived") if back else ("step", LOST)
        if isinstance(last, r.ResizeFailed) and not last.late:
            return POINTS[reached], "goes on"
        return POINTS[reached], LOST

    def finish(self) -> bool:
        """Whether the job's result is right."""
        self.flag.touch()
        return is_right(self.run.finish()["hit"]["result"])


def ends_job(number: int, record: r.Record) -> bool:
    match record:
        case r.ResizeDone(resize=resize) | r.ResizeFailed(resize=resize):
            return resize == number
        case r.JobEnding() | r.JobEnded():
            return True
        case _:
            return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--netmod", default="ucx", choices=["ucx", "ofi"])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--aim", default="", choices=["", *POINTS])
    options = parser.parse_args()
    random = Random(options.seed)
    became: Counter[tuple[str, str]] = Counter()
    jobs = wrong = 0
    trial: Trial | None = None
    with tempfile.TemporaryDirectory(prefix="plt") as runtime, tempfile.TemporaryDirectory() as places:
        try:
            for number in range(options.kills):
                if trial is None:
                    jobs += 1
                    place = Path(places) / str(jobs)
                    place.mkdir()
                    trial = Trial(place, Path(runtime), options)
                words = plan(random, options.slots, options.aim)
                reached, outcome = trial.kill(words)
                became[reached, outcome] += 1
                print(f"{number + 1}: {words}: at {reached}: {outcome}", file=sys.stderr, flush=True)
                if outcome == LOST:
                    print((trial.run.out / "hit.log").read_text()[-1500:], file=sys.stderr, flush=True)
                    trial.run.end()
                    trial = None
            if trial is not None:
                wrong += not trial.finish()
        finally:
            if trial is not None:
                trial.run.end()
    for point in POINTS:
        for (reached, outcome), times in sorted(became.items()):
            if reached == point:
                print(f"{times:5d}  {point:10s} {outcome}")
    print(f"{options.kills} kills, {jobs} jobs, {wrong} wrong results")


if __name__ == "__main__":
    main()
