"""The live view: plain lines where nobody watches, a display where somebody does."""

import io
import re

import pytest
from report_runs import NAMES, finished, offered, one_resize, realistic
from rich.console import Console, RenderableType

from pliant.core import records as r
from pliant.model.groups import Group
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet
from pliant.page.hover import _mark
from pliant.page.html import page
from pliant.page.tables import resizes
from pliant.policy.view import Reason
from pliant.report.runs import Run
from pliant.terminal.events import EventTexts
from pliant.terminal.progress import LiveView, done_share
from pliant.terminal.working import FIRST_S

IDLE = "nobody was waiting for the free nodes, and it had 20.0 s to go"
HEAD = "head could then start, up to 3.00 s sooner"


def plain_lines(run: Run) -> list[str]:
    out = io.StringIO()
    with LiveView(run.name, run.policy, run.names, Console(file=out, width=60)) as view:
        for record in run.records:
            view.record(record)
            view.tick(record.at)
    return out.getvalue().splitlines()


def rendered(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=100, height=30, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(view.render())
    return capture.get()


def test_plain_lines_tell_what_happened_and_nothing_else() -> None:
    assert plain_lines(one_resize()) == [
        "     2.0 s  ▶ solver started on 1 node, n0",
        f"     5.0 s  ▲ solver grew from 1 to 3 nodes (stood still for 40 ms): {IDLE}",
        f"     9.0 s  ▼ solver shrank from 3 to 2 nodes (stood still for 20 ms): {HEAD}",
        "     9.5 s  ▶ head started on 1 node, n1: it fitted ahead of its turn without delaying the head of the queue",
        "    12.0 s  ✗ head ended as FAILED (exit code 3) after 2.50 s: ValueError: no; rank 0 of group 0 on n1 exited with 3",
        "    13.0 s  ✓ solver completed after 11.0 s",
        "✗ malleable: done after 13.0 s, 2 jobs ended, 1 of them not completed, 2 resizes",
    ]


def test_after_some_silence_a_plain_line_says_how_things_stand() -> None:
    out = io.StringIO()
    base = one_resize()
    with LiveView(base.name, base.policy, base.names, Console(file=out, width=60)) as view:
        view.tick(FIRST_S)
        for record in base.records[:4]:
            view.record(record)
        for now in range(3, 40):
            view.tick(float(now))
    assert out.getvalue().splitlines()[:-1] == [
        "     4.0 s  · waiting for 3 nodes",
        "     2.0 s  ▶ solver started on 1 node, n0",
        *(f"    {at}.0 s  · 1 job running, 0 waiting, 0 ended; 1 of 3 nodes in use" for at in (14, 24, 34)),
    ]


def test_plain_lines_hold_no_control_characters() -> None:
    lines = plain_lines(finished("evil\x1b[2J", 3.0, jobs="a\x1b]0;b\x07\nfake line"))
    assert len(lines) == 3
    assert not any(ord(c) < 32 for line in lines for c in line)


def test_a_failed_resize_and_a_lost_node_are_told() -> None:
    run = one_resize()
    records = [
        *run.records[:7],
        r.ResizeFailed(5.0, 1, 1, "connect: refused", NodeSet.of([1])),
        r.NodesLost(6.0, NodeSet.of([2])),
    ]
    out = io.StringIO()
    view = LiveView("m", "p", run.names, Console(file=out, width=200))
    for record in records:
        view.record(record)
    lines = out.getvalue().splitlines()
    assert lines[-2] == (
        "     5.0 s  ✗ solver: growing from 1 to 3 nodes failed; it goes on as before: connect: refused"
    )
    assert lines[-1] == "     6.0 s  ✗ lost n2"
    text = rendered(view)
    assert "nodes  a▒✗" in text  # solver's, not proved clean, lost


def test_what_is_counted_agrees_with_its_verb_and_a_loss_has_its_reason() -> None:
    told = EventTexts(NAMES)
    said = [
        told.tell(r.NodesRefused(1.0, 1, "none")),
        told.tell(r.NodesRefused(1.0, 2, "none")),
        told.tell(r.NodesLost(2.0, NodeSet.of([1]), "its agent was ended by SIGTERM")),
    ]
    assert [each.text for each in said if each is not None] == [
        "1 node that was asked for does not come: none",
        "2 nodes that were asked for do not come: none",
        "lost n1: its agent was ended by SIGTERM",
    ]


def moved() -> list[r.Record]:
    """A job on one node that moves from n0 to n2, and further to n1."""
    spec = JobSpec(name="solver", nodes=Bounds(1, 3), job_class=JobClass.MALLEABLE)
    ordered = Reason("ordered")
    return [
        r.NodesGranted(0.0, NodeSet.first(3)),
        r.JobSubmitted(0.0, 1, spec),
        r.JobStarted(0.0, 1, NodeSet.of([0]), Reason("fits")),
        r.ResizeOffered(1.0, 1, 1, 1, 1, NodeSet.of([2]), ordered, (Group(1, 2),), (0,)),
        r.ResizeDone(2.0, 1, 1, NodeSet.of([2]), NodeSet.of([0]), 0.1, {}, (0,), 1),
        r.ResizeOffered(3.0, 1, 2, 1, 1, NodeSet.of([1]), ordered, (Group(2, 1),), (1,)),
        r.ResizeDeclined(4.0, 1, 2, "no"),
    ]


def test_a_move_names_the_nodes_that_it_leaves_and_goes_to() -> None:
    told = EventTexts(["n0", "n1", "n2"])
    said = [each.text for each in map(told.tell, moved()) if each is not None]
    assert said[1:] == [
        "solver is asked to move from n0 to n2: an operator ordered it",
        "solver moved from n0 to n2 (stood still for 100 ms): an operator ordered it",
        "solver is asked to move from n2 to n1: an operator ordered it",
        "solver: moving from n2 to n1 was declined: no",
    ]
    run = Run("m", "p", ["n0", "n1", "n2"], moved())
    [resize, _] = run.jobs[1].resizes
    assert (resize.nodes, resize.moved_to) == (NodeSet.of([0]), NodeSet.of([2]))
    assert [_mark(run, mark)["title"] for mark in run.chart.marks] == ["⇄ solver moved from n0 to n2"] * 2
    assert [each["what"] for each in resizes(run)["rows"]] == ["n0 → n2", "n1"]


GROWING = "solver: growing from 1 to 3 nodes"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            [r.ResizeDeclined(5.0, 1, 1, "only 2 steps are left", late=True)],
            [f"· {GROWING} was declined: only 2 steps are left"],
        ),
        (
            [
                r.ResizeAccepted(4.5, 1, 1),
                r.ResizeFailed(5.0, 1, 1, "the loop has ended", NodeSet(), late=True),
            ],
            [f"· {GROWING} came too late: the loop has ended"],
        ),
        (
            [r.ResizeWithdrawn(5.0, 1, 1, "not answered in time"), r.ResizeDeclined(5.5, 1, 1, "withdrawn")],
            [f"· {GROWING} is called off: not answered in time"],
        ),
        (
            [
                r.ResizeAccepted(4.5, 1, 1),
                r.ResizeWithdrawn(5.0, 1, 1, "not done in time"),
                r.ResizeFailed(5.5, 1, 1, "withdrawn", NodeSet()),
            ],
            [f"· {GROWING} is called off: not done in time"],
        ),
        (
            [r.ResizeDeclined(5.0, 1, 1, "the program's arrays have rows for 2 nodes, not for 3")],
            [f"✗ {GROWING} was declined: the program's arrays have rows for 2 nodes, not for 3"],
        ),
        (
            [r.ResizeAccepted(4.5, 1, 1), r.ResizeFailed(5.0, 1, 1, "KeyError: 'newcomer'", NodeSet())],
            [f"✗ {GROWING} failed; it goes on as before: KeyError: 'newcomer'"],
        ),
    ],
)
def test_only_what_is_wrong_has_a_cross(answers: list[r.Record], said: list[str]) -> None:
    run = offered(*answers)
    lines = [line[12:] for line in plain_lines(run)]
    assert lines[1:-1] == said
    told = EventTexts(run.names)
    styles = {
        event.style for record in run.records if (event := told.tell(record)) and "solver:" in event.text
    }
    assert styles == ({"yellow"} if said[0].startswith("✗") else {"dim"})
    failed = any(isinstance(answer, r.ResizeFailed) and not answer.late for answer in answers)
    assert ('<span class="worse">' in page([run])) == failed


def test_nodes_that_come_later_are_told_in_one_line() -> None:
    told = EventTexts(["n0"])
    come = [
        r.NodesGranted(at, NodeSet.of(numbers), tuple(f"n{i}" for i in numbers))
        for at, numbers in ((0.0, [0]), (1.0, [1]), (2.0, [2, 3]))
    ]
    assert [said and said.text for said in map(told.tell, come)] == [None, "n1 is new", "n[2-3] are new"]


def test_the_page_says_why_a_resize_came_to_nothing() -> None:
    withdrawn = r.ResizeWithdrawn(5.0, 1, 1, "not done in time")
    text = page([offered(withdrawn, r.ResizeFailed(5.5, 1, 1, "withdrawn", NodeSet()))])
    assert "not done in time" in text
    assert "KeyError: &#39;n&#39;" in page([offered(r.ResizeFailed(5.5, 1, 1, "KeyError: 'n'", NodeSet()))])


def test_the_display_shows_queue_bars_and_resizes_under_way() -> None:
    run = one_resize()
    view = LiveView("malleable", "malleable", run.names, Console(file=io.StringIO(), force_terminal=True))
    for record in run.records[:7]:
        view.record(record)
    view.record(r.JobProgressed(4.3, 1, 0.25))
    view.record(r.JobSubmitted(4.5, 2, JobSpec(name="next", nodes=Bounds(2, 4))))
    view.tick(4.6)
    text = rendered(view)
    assert "00:04  3 of 3 nodes in use, 0 free" in text
    assert "nodes  a▒▒" in text
    assert "1 job: next (2:4)" in text
    assert "25 %" in text
    assert "1 node  ▲ 3 (under way)" in text
    assert "solver can grow from 1 to 3 nodes" in text


@pytest.mark.parametrize(
    ("answers", "stage"),
    [
        ([], "offered"),
        ([r.ResizeAccepted(4.5, 1, 1)], "under way"),
        ([r.ResizeWithdrawn(4.5, 1, 1, "late")], "called off"),
        ([r.ResizeWithdrawn(4.5, 1, 1, "late"), r.ResizeAccepted(4.6, 1, 1)], "called off"),
        ([r.ResizeAccepted(4.5, 1, 1), r.ResizeWithdrawn(4.6, 1, 1, "late")], "called off"),
    ],
)
def test_the_display_has_a_word_for_each_stage_of_a_resize(answers: list[r.Record], stage: str) -> None:
    view = LiveView("malleable", "malleable", ["n0", "n1", "n2"], Console(file=io.StringIO()))
    for record in offered(*answers).records:
        view.record(record)
    assert f"▲ 3 ({stage})" in rendered(view)


def test_the_display_says_a_kind_that_is_not_mpi() -> None:
    view = LiveView("m", "p", ["n0", "n1"], Console(file=io.StringIO()))
    for number, kind in ((1, JobKind.TASKS), (2, JobKind.MPI), (3, JobKind.PLACES)):
        view.record(
            r.JobSubmitted(0.0, number, JobSpec(name=f"j{number}", nodes=Bounds.exactly(1), kind=kind))
        )
    for number in (1, 2):
        view.record(r.JobStarted(0.0, number, NodeSet.of([number - 1]), Reason("fits")))
        view.record(r.JobLaunched(0.0, number))
    text = rendered(view)
    assert "1 node, tasks\n" in re.sub(" +\n", "\n", text)
    assert "mpi" not in text
    assert "1 job: j3 (1, places)" in text


def test_a_display_is_drawn_at_most_five_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=30)
    run = realistic()[1]
    drawn = 0
    with LiveView("malleable", "malleable", NAMES, console) as view:
        render, before = view.render, 0

        def counted() -> RenderableType:
            nonlocal before
            before += 1
            return render()

        monkeypatch.setattr(view, "render", counted)
        for record in run.records[:40]:
            view.record(record)
        for i in range(1001):
            view.tick(10.0 + i / 1000)
        drawn = before
    assert 5 <= drawn <= 6
    assert "malleable: stopped after 11.0 s" in out.getvalue()


def screen(text: str) -> list[str]:
    """What a terminal shows in the end: of its codes, those that move up and erase matter here."""
    lines, row, column = [""], 0, 0
    for code, amount, action, other in re.findall(r"(\x1b\[\??([\d;]*)([A-Za-z]))|([^\x1b])", text):
        if code:
            assert action in "AKmhl", code
            if action == "A":
                row -= int(amount or 1)
            elif action == "K":
                lines[row] = ""
        elif other == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif other == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + other + lines[row][column + 1 :]
            column += 1
    return "\n".join(line.rstrip() for line in lines).rstrip().split("\n")


def test_events_stay_on_a_terminal_when_the_display_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # whatever the tests are run in: a dumb one has no display
    out, run = io.StringIO(), one_resize()
    with LiveView(run.name, run.policy, run.names, Console(file=out, force_terminal=True, width=60)) as view:
        for record in run.records:
            view.record(record)
            view.tick(record.at)
            if record.at == 9.0:
                during = screen(out.getvalue())
    assert "     2.0 s  ▶ solver started on 1 node, n0" in during
    assert "     9.0 s  ▼ solver shrank from 3 to 2 nodes (stood still" in during
    assert any(line.startswith("malleable  00:09  3 of 3 nodes in use") for line in during)
    assert "a  solver  ░░░░░░░░░░░░  ~0 %  2 nodes" in during
    assert screen(out.getvalue()) == [
        "     2.0 s  ▶ solver started on 1 node, n0",
        "     5.0 s  ▲ solver grew from 1 to 3 nodes (stood still for",
        "              40 ms): nobody was waiting for the free nodes,",
        "              and it had 20.0 s to go",
        "     9.0 s  ▼ solver shrank from 3 to 2 nodes (stood still",
        "              for 20 ms): head could then start, up to 3.00",
        "              s sooner",
        "     9.5 s  ▶ head started on 1 node, n1: it fitted ahead of",
        "              its turn without delaying the head of the",
        "              queue",
        "    12.0 s  ✗ head ended as FAILED (exit code 3) after 2.50",
        "              s: ValueError: no; rank 0 of group 0 on n1",
        "              exited with 3",
        "    13.0 s  ✓ solver completed after 11.0 s",
        "✗ malleable: done after 13.0 s, 2 jobs ended, 1 of them not completed, 2 resizes",
    ]


def test_letters_are_not_handed_on_at_once() -> None:
    run = finished("rigid", *[float(i + 2) for i in range(8)])
    view = LiveView("rigid", "easy", run.names, Console(file=io.StringIO(), force_terminal=True))
    for record in run.records:
        if record.at <= 1.0:
            view.record(record)
    assert "nodes  abcdefgh" in rendered(view)


def test_ascii_terminals_get_ascii() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    run = one_resize()
    view = LiveView("malleable", "malleable", run.names, Console(file=out, width=200))
    for record in run.records:
        view.record(record)
    out.flush()
    assert b"^ solver grew" in raw.getvalue()
    assert view.render() is not None
    printed = Console(file=io.StringIO(), width=40, force_terminal=True, color_system=None)
    with printed.capture() as capture:
        printed.print(view.render())
    assert capture.get().isascii()


def test_progress_comes_from_the_job_else_the_estimate() -> None:
    run = one_resize()
    view = LiveView("m", "p", run.names, Console(file=io.StringIO(), force_terminal=True))
    for record in run.records[:5]:
        view.record(record)
    job = view.state.jobs[1]
    assert done_share(job, 2.0 + 900.0) == (0.25, False)  # of an hour's walltime
    view.record(r.JobProgressed(3.0, 1, 0.5))
    assert done_share(job, 3.0) == (0.5, True)


def test_many_nodes_share_letters() -> None:
    view = LiveView("m", "p", [], Console(file=io.StringIO(), force_terminal=True))
    view.record(r.NodesGranted(0.0, NodeSet.first(300)))
    view.record(r.JobSubmitted(0.0, 1, JobSpec(name="wide", nodes=Bounds.exactly(150))))
    view.record(r.JobStarted(0.0, 1, NodeSet.first(150), Reason("fits")))
    text = rendered(view)
    assert "nodes  " + "a" * 30 + "·" * 30 + "  (5 nodes a letter)" in text
