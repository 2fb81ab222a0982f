"""In which phase a resize is, what its phases take, and in which one it fails: from the job's words to the report."""

from __future__ import annotations

import json
from pathlib import Path

import job_says
import msgspec
import pytest
from driving import Driven
from report_runs import offered, one_resize
from test_job_life import growing, relay
from test_report_live import plain_lines

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.job.errors import Stalled
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.page.html import page
from pliant.policy.malleable import Malleable
from pliant.protocol import messages as m
from pliant.protocol.codec import encode, from_job
from pliant.protocol.phases import DEADLINES, Phase
from pliant.report.data import report_data

SETTINGS = Settings(offer_deadline_s=20.0, resize_deadline_s=30.0)


class Drive:
    """Job 1, on 1 of 4 nodes, has been offered the others at time 0; its records are kept."""

    def __init__(self) -> None:
        self.records: list[r.Record] = []
        self.core = Driven(Malleable(), SETTINGS, self.records.append)
        spec = JobSpec(name="j", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE, walltime_s=3600.0)
        self.tell(0.0, e.Granted(NodeSet.first(4)), e.Submitted(1, spec))
        self.tell(0.0, e.Hello(1), job_says.malleable(1, on=True))

    def tell(self, at: float, *events: e.Event) -> None:
        self.core.tell(events, at)

    def come(self, at: float, phase: Phase) -> None:
        self.tell(at, job_says.reached(1, self.core.state.last_resize, phase))

    def last(self, kind: type[r.Record]) -> r.Record:
        return next(record for record in reversed(self.records) if isinstance(record, kind))


@pytest.fixture
def drive() -> Drive:
    return Drive()


@pytest.mark.parametrize(
    ("come", "phase"),
    [
        ([], Phase.START),
        ([Phase.SYNCHRONISE], Phase.SYNCHRONISE),
        ([Phase.SYNCHRONISE, Phase.CONNECT], Phase.CONNECT),
        ([Phase.SYNCHRONISE, Phase.CONNECT, Phase.MERGE, Phase.REORDER], Phase.REORDER),
        # A program may say what it likes, as often as it likes.
        ([Phase.SYNCHRONISE, Phase.CONNECT, Phase.PREPARE, Phase.START, Phase.SYNCHRONISE], Phase.CONNECT),
    ],
)
@pytest.mark.parametrize("how", ["fails", "ends"])
def test_a_resize_fails_in_the_phase_that_it_has_come_to(
    drive: Drive, come: list[Phase], phase: Phase, how: str
) -> None:
    drive.tell(1.0, job_says.accepted(1, 1))
    for number, each in enumerate(come):
        drive.come(2.0 + number, each)
    drive.tell(9.0, job_says.failed(1, 1, "no") if how == "fails" else e.Ended(1, 137, error="killed"))
    record = drive.last(r.ResizeFailed if how == "fails" else r.JobEnded)
    assert isinstance(record, r.ResizeFailed | r.JobEnded)
    assert record.phase is phase
    assert r.from_line(r.to_line(record)) == record


def test_a_shrink_has_no_start(drive: Drive) -> None:
    drive.tell(1.0, job_says.accepted(1, 1))
    drive.tell(2.0, job_says.resized(1, 1))
    drive.tell(3.0, e.ResizeOrdered(1, 2))
    drive.tell(4.0, job_says.accepted(1, 2))
    drive.tell(5.0, job_says.failed(1, 2, "no"))
    failed = drive.last(r.ResizeFailed)
    assert isinstance(failed, r.ResizeFailed)
    assert failed.phase is Phase.SYNCHRONISE


def test_the_phases_of_a_resize_add_up_to_the_time_from_its_offer(drive: Drive) -> None:
    drive.tell(1.0, job_says.accepted(1, 1))
    drive.come(4.0, Phase.SYNCHRONISE)
    told = {"redistribute": 0.25, "synchronise": 0.5, "connect": 0.25, "a name of its own": 9.0}
    drive.tell(10.0, job_says.resized(1, 1, (), 1.0, told))
    done = drive.last(r.ResizeDone)
    assert isinstance(done, r.ResizeDone)
    assert done.phases == {
        "prepare": 1.0, "start": 3.0, "synchronise": 5.5, "connect": 0.25, "redistribute": 0.25,
    }  # fmt: skip
    assert list(done.phases) == [phase for phase in Phase if phase in done.phases]
    assert sum(done.phases.values()) == 10.0


def test_a_job_that_tells_no_phases_has_none(drive: Drive) -> None:
    drive.tell(1.0, job_says.accepted(1, 1))
    drive.tell(2.0, job_says.resized(1, 1, (), 1.0, {"a name of its own": 9.0}))
    done = drive.last(r.ResizeDone)
    assert isinstance(done, r.ResizeDone)
    assert done.phases == {}


def test_a_job_ends_in_no_phase_where_it_has_not_begun_to_resize(drive: Drive) -> None:
    drive.tell(1.0, e.Ended(1, 0))
    ended = drive.last(r.JobEnded)
    assert isinstance(ended, r.JobEnded)
    assert ended.phase is None


@pytest.mark.parametrize(
    ("begin", "at", "said"),
    [
        (
            [],
            20.0,
            "not answered in time: in its phase prepare 20 s after the offer (offer_deadline_s is 20 s, ",
        ),
        (
            [job_says.accepted(1, 1)],
            31.0,
            "not done in time: in its phase start 31 s after the offer (resize_deadline_s is 30 s, ",
        ),
        (
            [job_says.accepted(1, 1), job_says.reached(1, 1, Phase.SYNCHRONISE)],
            31.0,
            "not done in time: in its phase synchronise 31 s after the offer (resize_deadline_s is 30 s, ",
        ),
    ],
)
def test_a_deadline_that_is_over_is_named_with_its_phase(
    drive: Drive, begin: list[e.Event], at: float, said: str
) -> None:
    drive.tell(1.0 if begin else 0.0, *begin)
    for now in (at + 3.0, at + 200.0, at + 1000.0):
        drive.tell(now, e.Tick())
    withdrawn = drive.last(r.ResizeWithdrawn)
    assert isinstance(withdrawn, r.ResizeWithdrawn)
    head, _, limit = said.partition("in its phase")
    assert withdrawn.reason.startswith(head)
    assert f"in its phase{limit.partition(' s after')[0].rpartition(' ')[0]}" in withdrawn.reason
    assert said.partition("offer (")[2] in withdrawn.reason
    if begin:
        ending = drive.last(r.JobEnding)
        assert isinstance(ending, r.JobEnding)
        assert ending.error.startswith("resize 1 was in its phase s")


def test_newcomers_that_are_all_ready_end_the_start_and_the_root_tells_the_rest() -> None:
    life, heard = growing()
    for group in (1, 2):
        assert not heard.of_root(m.Reached)
        relay(life, group, m.Hello(1, group, 1, "token", 1))
        relay(life, group, m.Ready(5, group))
    relay(life, 0, m.Reached(0, 5, Phase.CONNECT))
    relay(life, 1, m.Reached(0, 5, Phase.MERGE))  # it does not speak for the job
    assert [said.phase for said in heard.of_root(m.Reached)] == [Phase.SYNCHRONISE, Phase.CONNECT]


@pytest.mark.parametrize(
    ("record", "logged"),
    [
        (
            r.ResizeFailed(9.0, 1, 5, "rank 0 is gone\nand more", NodeSet(), phase=Phase.START),
            ["resize 5 failed in its phase start: rank 0 is gone"],
        ),
        (r.ResizeFailed(9.0, 1, 5, "the loop has ended", NodeSet(), late=True, phase=Phase.START), []),
        (
            r.JobEnded(9.0, 1, JobState.FAILED, 137, NodeSet(), None, "killed", phase=Phase.MERGE),
            ["the job, being resized, failed in its phase merge: killed"],
        ),
        (r.JobEnded(9.0, 1, JobState.FAILED, 137, NodeSet(), None, "killed"), []),
    ],
)
def test_the_log_of_the_job_says_in_which_phase(
    record: r.ResizeFailed | r.JobEnded, logged: list[str]
) -> None:
    life, heard = growing()
    life.failed(record)
    assert heard.logged == logged


def test_what_no_phase_is_is_no_message() -> None:
    line = encode(m.Reached(0, 1, Phase.MERGE))
    assert from_job().decode(line) == m.Reached(0, 1, Phase.MERGE)
    with pytest.raises(Exception, match="not a message"):
        from_job().decode(line.replace(b"merge", b"fuse"))


# ---- reports ------------------------------------------------------------------------------------------


ACCEPTED = r.ResizeAccepted(4.5, 1, 1)
FAILED = r.ResizeFailed(5.0, 1, 1, "refused", NodeSet(), phase=Phase.CONNECT)
ENDED = r.JobEnded(5.0, 1, JobState.FAILED, 137, NodeSet.of([0]), None, "killed", phase=Phase.MERGE)


@pytest.mark.parametrize(
    ("answer", "outcome", "line"),
    [
        (FAILED, ("failed", "connect"), "failed in its phase connect; it goes on as before: refused"),
        (ENDED, ("ended", "merge"), "when a resize was in its phase merge: killed"),
    ],
)
def test_reports_name_the_phase(answer: r.Record, outcome: tuple[str, str], line: str) -> None:
    run = offered(ACCEPTED, answer)
    assert any(line in each for each in plain_lines(run))
    [resize] = json.loads(msgspec.json.encode(report_data([run])))["runs"][0]["jobs"][0]["resizes"]
    assert (resize["outcome"], resize["phase"]) == outcome
    assert f"{outcome[0]} in its phase {outcome[1]}" in page([run])


def test_a_journal_of_before_has_no_phases() -> None:
    line = b'{"record":"ResizeFailed","at":5.0,"job":1,"resize":1,"error":"no","dirty":"1"}'
    assert r.from_line(line) == r.ResizeFailed(5.0, 1, 1, "no", NodeSet.of([1]))
    old = report_data([one_resize()])["runs"][0]["jobs"][0]["resizes"]
    assert [resize["phase"] for resize in old] == [None, None]


def test_a_wait_that_is_over_names_its_phase() -> None:
    assert str(Stalled("the others", 9.0, phase=Phase.REDISTRIBUTE)).startswith(
        "waited 9 s for the others, in the phase redistribute of a resize; "
    )
    assert "phase" not in str(Stalled("the others", 9.0))


def test_each_phase_has_a_deadline_on_the_page() -> None:
    text = (Path(__file__).parents[2] / "docs/resizing.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    assert [(row[1].strip(" `"), row[3].split("`")[1]) for row in rows] == [*DEADLINES.items()]
