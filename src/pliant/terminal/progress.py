"""Progress while a run goes on: a fold over records, drawn on a terminal or told in plain lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.core.state import State
from pliant.model.jobs import JobState
from pliant.model.kinds import JobKind
from pliant.model.words import count
from pliant.protocol import resizing
from pliant.report.words import plain, shorten
from pliant.terminal.events import EventTexts, Sentence
from pliant.terminal.glyphs import glyphs, spelled
from pliant.terminal.working import FIRST_S, silence_s

REFRESH_S = 0.2
PASSING_SHOWN = 2
PASSING_S = 5.0
"""Events that are worth no line of their own are shown for so long."""
QUEUE_SHOWN = 5
STAGES = {resizing.OFFERED: "offered", resizing.ACCEPTED: "under way"}
"""Of a resize; in all others it has been taken back."""
BAR_WIDTH = 24
NAME_WIDTH = 18
NODES_WIDTH = 64
"""More nodes than this share a block."""

# Names for jobs in the row of nodes: letters, because colour may be missing. Small l and O look like digits.
LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHIJKLMNPQRSTUVWXYZ"
COLOURS = (
    "cyan",
    "yellow",
    "blue",
    "magenta",
    "bright_cyan",
    "bright_yellow",
    "bright_blue",
    "bright_magenta",
)


class LiveView:
    """Shows a run while it goes on. ``record`` takes every record, ``tick`` the time now and then.

    On a terminal the display is drawn at most five times a second, from ``tick`` alone; events of interest are
    printed above it, where they stay, and at the end it makes way for one closing line. Elsewhere each event of
    interest is one plain line, and after some time without any a line says how things stand. ``names`` are the nodes'
    names.
    """

    def __init__(self, title: str, policy: str, names: Sequence[str], console: Console | None = None) -> None:
        self.console = console or Console()
        self.state = State()
        self._names = list(names)
        self._told = EventTexts(self._names)
        self._ascii = self.console.options.ascii_only
        self._glyphs = glyphs(ascii_only=self._ascii)
        # Rich marks what it cuts off with a sign that ASCII does not have.
        self.title = self._spelled(plain(title))
        self.policy = self._spelled(plain(policy))
        self._overflow: OverflowMethod = "crop" if self._ascii else "ellipsis"
        self._passing: deque[Sentence] = deque(maxlen=PASSING_SHOWN)
        self._untold: list[Sentence] = []
        self._letters: dict[int, str] = {}
        self._next_letter = 0
        self._now = 0.0
        self._drawn = -REFRESH_S
        self._due = FIRST_S
        self._ended = self._failed = self._resizes = 0
        self._live: Live | None = None
        self.stopped = False

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(
                self.render(), console=self.console, auto_refresh=False, transient=True, redirect_stdout=False
            )
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._tell()
        self.console.print(
            self._closing(stopped=self.stopped or kind is not None), highlight=False, soft_wrap=True
        )

    def record(self, record: r.Record) -> None:
        """Take one record of the run, in order."""
        self._now = max(self._now, record.at)
        event = self._told.tell(record)
        self.state.apply(record)
        self._note(record)
        if event is not None:
            self._take(event)

    def _take(self, event: Sentence) -> None:
        if not event.plain_too:
            self._passing.append(event)
        elif self._live is not None:
            self._untold.append(event)
        else:
            self._say(event)

    def _say(self, event: Sentence) -> None:
        self.console.print(Text(self._line(event)), highlight=False, soft_wrap=True)
        self._due = self._now + silence_s(self._now)

    def begun(self, run: str, jobs: int) -> None:
        """Say by which id other commands know the run."""
        where = f"{count(jobs, 'job')} on {count(len(self._names), 'node')}"
        self.console.print(
            f"run {run}: {where}, policy {self.policy}", highlight=False, markup=False, soft_wrap=True
        )

    def notice(self, text: str) -> None:
        """Tell what no record tells."""
        self._take(Sentence(self._now, "other", plain(text), "bold yellow"))

    def tick(self, now: float) -> None:
        """Time has come to ``now``, in seconds of the records' clock; redraws if it is time to."""
        self._now = max(self._now, now)
        if self._live is not None and self._now - self._drawn >= REFRESH_S:
            self._drawn = self._now
            self._tell()
            self._live.update(self.render(), refresh=True)
        elif self._live is None and self._now >= self._due:
            self._say(Sentence(self._now, "other", self._standing()))

    def _standing(self) -> str:
        """How things are, while nothing happens."""
        state = self.state
        if not state.total:
            return f"waiting for {count(len(self._names), 'node')}"
        jobs = f"{count(len(state.running), 'job')} running, {state.waiting} waiting, {self._ended} ended"
        return f"{jobs}; {state.total - state.free} of {count(state.total, 'node')} in use"

    def _note(self, record: r.Record) -> None:
        if isinstance(record, r.JobStarted):
            self._letters[record.job] = self._letter()
        elif isinstance(record, r.JobEnded):
            self._letters.pop(record.job, None)
            self._ended += not record.requeued
            self._failed += record.state is not JobState.COMPLETED and not record.requeued
        elif isinstance(record, r.ResizeDone):
            self._resizes += 1

    def _letter(self) -> str:
        """The next letter that no running job has: a job that follows another does not look like it."""
        taken = set(self._letters.values())
        for _ in LETTERS:
            letter = LETTERS[self._next_letter % len(LETTERS)]
            self._next_letter += 1
            if letter not in taken:
                return letter
        return "*"

    # ---- plain lines ---------------------------------------------------------------------------------

    def _line(self, event: Sentence) -> str:
        return self._spelled(f"{event.at:8.1f} s  {event.sign(self._glyphs)} {event.text}")

    def _tell(self) -> None:
        """Print what has happened since the last time; in a narrow terminal times stay on the left."""
        if not self._untold:
            return
        table = Table.grid()
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for event in self._untold:
            when = f"{event.at:8.1f} s  {event.sign(self._glyphs)} "
            table.add_row(Text(when, style=event.style), Text(self._spelled(event.text), style=event.style))
        self._untold.clear()
        self.console.print(table)

    def _spelled(self, text: str) -> str:
        return spelled(text, ascii_only=self._ascii)

    def _name(self, job: ScheduledJob) -> str:
        return self._spelled(shorten(job.spec.name, NAME_WIDTH))

    def _closing(self, *, stopped: bool) -> Text:
        """The one line that stays."""
        glyph = self._glyphs
        failed = f", {self._failed} of them not completed" if self._failed else ""
        open_ = len(self.state.jobs)
        left = f", {open_} left" if open_ else ""
        sign = glyph.failed if self._failed or stopped or open_ else glyph.completed
        said = "stopped" if stopped or open_ else "done"
        return Text(
            f"{sign} {self.title}: {said} after {self._now:.1f} s, {count(self._ended, 'job')} ended{failed}{left}, "
            f"{count(self._resizes, 'resize')}",
            style="bold yellow" if self._failed or stopped else "bold",
        )

    # ---- the display ---------------------------------------------------------------------------------

    def render(self) -> RenderableType:
        """The display as it is now."""
        parts: list[RenderableType] = [Text(), self._header(), self._nodes(), self._queue()]
        if self.state.running:
            parts += [Text(), self._bars()]
        if passing := [event for event in self._passing if self._now - event.at < PASSING_S]:
            parts.append(Text())
            parts += [
                Text(self._line(event), style=event.style, no_wrap=True, overflow=self._overflow)
                for event in passing
            ]
        return Group(*parts)

    def _header(self) -> Text:
        state = self.state
        used = state.total - state.free
        minutes, secs = divmod(int(self._now), 60)
        text = Text(no_wrap=True, overflow=self._overflow)
        text.append(self.title, style="bold")
        text.append("  " if self.policy == self.title else f"  policy {self.policy}  ", style="dim")
        text.append(f"{minutes:02d}:{secs:02d}", style="bold")
        text.append(f"  {used} of {count(state.total, 'node')} in use, {state.free} free")
        text.append(f"  {count(self._ended, 'job')} ended")
        if self._failed:
            text.append(f", {self._failed} not completed", style="bold yellow")
        return text

    def _nodes(self) -> Text:
        """A letter a node, that of the job which holds it; a node that is changing hands has a sign."""
        text = Text.assemble(("nodes  ", "dim"), no_wrap=True, overflow=self._overflow)
        width = self.state.nodes.all_mask.bit_length()
        step = max(1, -(-width // NODES_WIDTH))
        owners = {job.id: job.nodes for _, _, job in self.state.running}
        for node in range(0, width, step):
            self._node(text, 1 << node, owners)
        if step > 1:
            text.append(f"  ({step} nodes a letter)", style="dim")
        return text

    def _node(self, text: Text, bit: int, owners: dict[int, int]) -> None:
        state, glyph = self.state, self._glyphs
        for number, mask in owners.items():
            if mask & bit:
                letter = self._letters.get(number, "*")
                text.append(letter, style=f"bold {self._colour(letter)}")
                return
        if state.nodes.lost_mask & bit:
            text.append(glyph.lost, style="bold yellow")
        elif state.nodes.free_mask & bit:
            text.append(glyph.free, style="dim")
        else:
            text.append(glyph.between, style="dim")

    def _queue(self) -> Text:
        text = Text.assemble(("queue  ", "dim"), no_wrap=True, overflow=self._overflow)
        waiting = self.state.waiting
        if not waiting:
            return text.append("empty", style="dim")
        text.append(f"{count(waiting, 'job')}: ", style="bold")
        first: list[str] = []
        for job in self.state.queue:
            if len(first) == QUEUE_SHOWN:
                break
            first.append(f"{self._name(job)} ({job.bounds.describe()}{_kind(job)})")
        text.append(", ".join(first))
        if waiting > QUEUE_SHOWN:
            text.append(f" and {waiting - QUEUE_SHOWN} more", style="dim")
        return text

    def _bars(self) -> Table:
        """A bar a running job, as many as the terminal has room for."""
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True, overflow=self._overflow)
        room = max(3, self.console.size.height - PASSING_SHOWN - 8)
        jobs = sorted((job for _, _, job in self.state.running), key=lambda job: job.id)
        for job in jobs[:room]:
            table.add_row(*self._bar(job))
        if len(jobs) > room:
            table.add_row("", Text(f"and {len(jobs) - room} more", style="dim"))
        return table

    def _bar(self, job: ScheduledJob) -> list[Text]:
        letter = self._letters.get(job.id, "*")
        colour = self._colour(letter)
        share, known = done_share(job, self._now)
        glyph = self._glyphs
        # Half a bar in a narrow terminal: else names and sizes are cut off, and whole columns left out.
        width = BAR_WIDTH if self.console.width >= 100 else BAR_WIDTH // 2
        full = round(share * width)
        bar = Text(glyph.full * full, style=colour)
        bar.append(glyph.empty * (width - full), style="dim")
        # An estimate is no progress: the tilde says so.
        shown = Text(f"{'' if known else '~'}{share * 100:.0f} %")
        return [
            Text(letter, style=f"bold {colour}"),
            Text(self._name(job)),
            bar,
            shown,
            self._size(job),
        ]

    def _size(self, job: ScheduledJob) -> Text:
        """The node count and the kind, with where it goes while a resize is under way."""
        text = Text(count(job.size, "node") + _kind(job) + (", ranks asleep" if job.awake else ""))
        resize = job.resize
        if resize is not None:
            sign = str(getattr(self._glyphs, resize.kind))
            after = "ranks" if resize.slots else resize.after
            text.append(f"  {sign} {after} ({STAGES.get(resize.stage, 'called off')})", style="bold")
        if job.ending is not None:
            text.append("  ending", style="bold yellow")
        elif job.state is JobState.CONFIGURING:
            text.append("  starting", style="dim")
        return text

    def _colour(self, letter: str) -> str:
        return COLOURS[LETTERS.find(letter) % len(COLOURS)]


def _kind(job: ScheduledJob) -> str:
    """What the job is, behind a comma, if it is not what most are."""
    return "" if job.spec.kind is JobKind.MPI else f", {job.spec.kind}"


def done_share(job: ScheduledJob, now: float) -> tuple[float, bool]:
    """(share of the job that is done, whether the job or its model says so rather than its estimate)."""
    if job.fraction > 0.0 or job.spec.model is not None:
        left = job.remaining_s(now)
        if job.spec.model is not None:
            return _bounded(1.0 - left / job.spec.model.time(max(1, job.size))), True
        return _bounded(job.fraction), True
    length = job.expected_end - job.started
    return _bounded((now - job.started) / length if length > 0 else 0.0), False


def _bounded(share: float) -> float:
    return min(1.0, max(0.0, share))
