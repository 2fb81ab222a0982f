"""Policies in processes of their own: they see and decide what those in this process do, and whatever goes wrong with
them is said. The programs of docs/external.md are run."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import msgspec
import pytest
from commands import command, run_of
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_evolving import evolving_jobs
from test_public import blocks
from test_simulation import policies_
from test_traces import trace, traces
from told_view import Deaf, Watching
from workloads import rigid

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.files import asked
from pliant.files.changes import Changes, Event
from pliant.files.external import External, _Answer, _encode, _Hello, _Pass, _Welcome, at_work, external
from pliant.files.policy import PolicySpec, inputs_of, load_class, policy_names
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy import view as p
from pliant.policy.easy import Easy
from pliant.policy.fcfs import Fcfs
from pliant.policy.registry import make
from pliant.sim.instant import Instant
from pliant.sim.simulator import PLAIN, Conditions, simulate
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.formats.swf import rigid_jobs
from pliant.workloads.job import SimJob

ROOT = Path(__file__).parents[2]
PYTHON = f"{shlex.quote(sys.executable)} -I -S"
PAGE = (ROOT / "docs/external.md").read_text(encoding="utf-8")
PROGRAMS = {
    text.split(maxsplit=2)[1].rstrip(":"): text
    for text in re.findall(r"^```(?:python|perl)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "x.swf").write_text("; MaxProcs: 4\n1 0 0 10 3\n2 0 0 5 4\n3 0 0 10 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def records_of(
    jobs: list[SimJob], nodes: int, policy: p.Policy, conditions: Conditions = PLAIN
) -> list[r.Record]:
    records: list[r.Record] = []
    with at_work(policy):
        simulate(jobs, nodes, policy, conditions, records.append)
    return records


# ---- the examples of the page ------------------------------------------------------------------------


@cache
def kth() -> list[SimJob]:
    return sorted(rigid_jobs(trace(), 100), key=lambda job: job.spec.submit_s)


def decided(jobs: list[SimJob], policy: p.Policy, instant: Instant) -> list[r.Record]:
    """What was decided but why."""
    records = records_of(jobs, 100, policy, Conditions(Settings(cost=INSTANT), instant=instant))
    kept = (r.JobStarted, r.JobPromised, r.JobEnded)
    return [
        msgspec.structs.replace(each, reason=p.Reason("")) if isinstance(each, r.JobStarted) else each
        for each in records
        if isinstance(each, kept)
    ]


@pytest.mark.parametrize("instant", Instant)
@pytest.mark.parametrize(
    "most", [2000, pytest.param(28481, marks=pytest.mark.long)], ids=["2000 jobs", "the whole trace"]
)
def test_easy_over_a_pipe_gives_every_wait_and_promise_of_easy(
    place: Path, instant: Instant, most: int
) -> None:
    jobs = kth()[:most]
    assert len(jobs) == most
    over_pipe = decided(jobs, external(f"exec:{PYTHON} easy_external.py"), instant)
    assert over_pipe == decided(jobs, Easy(), instant)
    starts = {each.job: each.at for each in over_pipe if isinstance(each, r.JobStarted)}
    waits = {job.spec.name: starts[i] - job.spec.submit_s for i, job in enumerate(jobs, 1)}
    assert len(waits) == most
    if most == 28481 and instant is Instant.PYSS:
        with gzip.open(traces() / "KTH-SP2.easy.swf.gz", "rt") as lines:
            words = [line.split() for line in lines if line.strip() and not line.startswith(";")]
        assert waits == {number: float(wait) for number, _submit, wait, *_ in words}
        assert sum(waits.values()) / most == pytest.approx(6836.87, abs=0.005)


@pytest.mark.skipif(shutil.which("perl") is None, reason="there is no perl")
def test_first_come_first_served_in_another_language(place: Path) -> None:
    jobs = kth()[:2000]
    over_pipe = decided(jobs, external("exec:perl fcfs.pl"), Instant.TOGETHER)
    assert over_pipe == decided(jobs, Fcfs(), Instant.TOGETHER)


@pytest.mark.skipif(shutil.which("perl") is None, reason="there is no perl")
def test_the_commands_of_the_page_do_what_it_says(place: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for text in blocks for line in text.splitlines()]
    easy, compared, patient = (shlex.split(line) for line in lines)
    assert all(words[0] == "pliant" for words in (easy, compared, patient))
    waits = [
        run_of(command(*words[1:], "--json"))["wait_mean_s"]
        for words in (easy, patient, [*easy[:-1], "easy"])
    ]
    assert waits[0] == waits[1] == waits[2]
    rows = json.loads(command(*compared[1:], "--workers", "1", "--json"))["rows"]
    means = [(row["policy"], row["wait_mean_s"]["mean"]) for row in rows]
    assert [name for name, _ in means] == ["easy", "exec:perl fcfs.pl", "fcfs"]
    assert means[1][1] == means[2][1] > means[0][1]


def test_the_conversation_of_the_page_is_what_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Heard(asked.AskedProcess):
        def ask(self, line: bytes) -> bytes:
            answer = super().ask(line)
            said.extend([f"    → {line.decode()}", f"    ← {answer.decode()}"])
            return answer

    monkeypatch.setattr("pliant.files.external.AskedProcess", Heard)
    ocean = JobSpec(
        name="ocean", nodes=Bounds(1, 4, preferred=2), job_class=JobClass.MALLEABLE, walltime_s=60.0, user="anna",
        model=Amdahl(100.0),
    )  # fmt: skip
    jobs = [SimJob(ocean), rigid("storm", 3, 20.0, at=10.0, user="berta")]
    records_of(jobs, 4, external(f"exec:{PYTHON} easy_external.py"), Conditions(Settings(cost=INSTANT)))
    lines = PAGE.splitlines(keepends=True)
    assert said == [line for line in lines if line.startswith(("    → ", "    ← "))]


def test_the_page_names_all_that_is_told_and_answered() -> None:
    answers = msgspec.structs.fields(_Answer)[0].type.__args__[0].__args__
    for kind in (_Hello, _Welcome, _Pass, *get_args(Event), _Answer, *answers, p.Reason):
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        if (tag := kind.__struct_config__.tag) is not None:
            assert f'"type":"{tag}"' in PAGE
        for name in names:
            assert f"`{name}`" in PAGE, (kind, name)


# ---- what is told ------------------------------------------------------------------------------------


class Lines:
    """The lines that a process is told."""

    def __init__(self) -> None:
        self._changes = Changes()

    def __call__(self, view: p.ClusterView) -> bytes:
        return _encode(_Pass(view.now, view.total, view.free, view.returning(), self._changes.since(view)))


@settings(max_examples=examples(100))
@given(st.one_of(elastic_jobs, evolving_jobs()), policies_, settings_, st.booleans(), st.booleans())
def test_a_client_can_know_what_a_policy_sees(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    starting: bool,  # noqa: FBT001 - Hypothesis passes it
    failing: bool,  # noqa: FBT001
) -> None:
    """Under any policy, with resizes that fail or are called off, nodes that are lost, jobs that ask for sizes."""
    failures = Failures(DrawnFailures(20_000.0, 60.0)) if failing else None
    conditions = Conditions(options, starting=starting, failures=failures)
    records = records_of(jobs, NODES, Watching(make(*policy), Lines()), conditions)
    assert records == records_of(jobs, NODES, make(*policy), conditions)


@cache
def widest() -> Callable[..., p.Policy]:
    """That of README.md."""
    [text] = [text for text in blocks(ROOT / "README.md") if "def decide" in text]
    with TemporaryDirectory() as place:
        (Path(place) / "widest.py").write_text(text)
        return load_class(f"{place}/widest.py")


TOLD_ALL = [
    *[(name, rule) for name in ("fcfs", "firstfit", "easy") for rule in ("min", "preferred", "free", "max")],
    ("conservative", "preferred"), ("widest", ""),
]  # fmt: skip


@settings(max_examples=examples(100))
@given(elastic_jobs, st.sampled_from(TOLD_ALL), settings_, st.booleans())
def test_a_policy_that_sees_only_what_is_told_decides_the_same(
    jobs: list[SimJob],
    policy: tuple[str, str],
    options: Settings,
    failing: bool,  # noqa: FBT001 - Hypothesis passes it
) -> None:
    def made() -> p.Policy:
        return widest()() if policy[0] == "widest" else make(*policy)

    conditions = Conditions(options, failures=Failures(DrawnFailures(20_000.0, 60.0)) if failing else None)
    told = records_of(jobs, NODES, Deaf(made(), Lines()), conditions)
    assert told == records_of(jobs, NODES, made(), conditions)


WIDEST = """
import json, sys

queue, running, elastic = {}, {}, {}

def floor(nodes, most):
    size = nodes["min"] if most >= nodes["min"] else 0
    if nodes["factor"] == 1:
        return min(most, nodes["max"]) if size else 0
    while size and size * nodes["factor"] <= min(most, nodes["max"]):
        size *= nodes["factor"]
    return size

def take(event):
    job = event["job"]
    if event["type"] == "submitted":
        queue[job] = event["nodes"]
    elif event["type"] == "ended":
        for jobs in (queue, running, elastic):
            jobs.pop(job, None)
    else:
        running[job] = running.get(job) or queue.pop(job)
        if event["elastic"]:
            elastic[job] = event
        else:
            elastic.pop(job, None)

def decide(free):
    for job, nodes in sorted(queue.items(), key=lambda item: -item[1]["min"]):
        if nodes["min"] <= free:
            free -= nodes["min"]
            yield {"type": "start", "job": job, "size": nodes["min"], "reason": "widest"}
    for job, known in elastic.items():
        size = floor(running[job], known["size"] + free)
        if size > known["size"] and known["growable"]:
            free -= size - known["size"]
            yield {"type": "resize", "job": job, "size": size, "reason": {"code": "idle_nodes", "figures": {}}}

for line in sys.stdin:
    told = json.loads(line)
    answer = {"protocol": 1, "rebalances": False, "unknown": None}
    if told["type"] == "pass":
        for event in told["events"]:
            take(event)
        answer = {"decisions": list(decide(told["free"])), "unknown": None}
    print(json.dumps(answer), flush=True)
"""


@settings(max_examples=examples(15))
@given(elastic_jobs, settings_)
def test_a_process_that_resizes_gives_the_records_of_the_same_policy_here(
    jobs: list[SimJob], options: Settings
) -> None:
    words = [sys.executable, "-I", "-S", "-c", WIDEST]
    over_pipe = records_of(jobs, NODES, External("widest", words, 60.0), Conditions(options))
    assert over_pipe == records_of(jobs, NODES, widest()(), Conditions(options))


def client(passes: str, hello: str = '{"protocol":1}', before: str = "") -> str:
    """exec: and a process that answers hello, and then each pass by a statement."""
    code = (
        f"import sys, os, time\n{before}\nprint({hello!r}, flush=True) if sys.stdin.readline() else 0\n"
        f"def say(*decisions): print('{{\"decisions\":[' + ','.join(decisions) + ']}}', flush=True)\n"
        f"count = 0\nfor line in sys.stdin:\n count += 1\n {passes}\n"
    )
    return f"exec:{PYTHON} -c {shlex.quote(code)}"


START = '{"type":"start","job":1,"size":4}'


@pytest.mark.parametrize(
    ("hello", "more", "asked_at"),
    [
        ('{"protocol":1}', [], [0.0, 5.0, 10.0]),
        ('{"protocol":1}', ['{"type":"wake","at":3}'], [0.0, 3.0, 5.0, 10.0]),
        ('{"protocol":1,"rebalances":true}', [], [0.0, 0.0, 5.0, 10.0]),
    ],
    ids=["plain", "woken", "always"],
)
def test_when_a_process_is_asked(hello: str, more: list[str], asked_at: list[float]) -> None:
    """One job has all nodes for 10 s; another comes at 5, and is never started."""
    times: list[float] = []

    class Noted(External):
        def decide(self, view: p.ClusterView) -> list[p.Decision]:
            times.append(view.now)
            return super().decide(view)

    name = client(f"say(*{[START, *more]}) if count == 1 else say()", hello)
    policy = Noted(name, shlex.split(name.removeprefix("exec:")), 60.0)
    spec = JobSpec(
        name="a", nodes=Bounds(4, 5), job_class=JobClass.MALLEABLE
    )  # it says when it may be resized
    jobs = [SimJob(spec, 10.0), rigid("b", 1, 1.0, at=5.0)]
    with pytest.raises(PolicyError, match="is stuck at 10"):
        records_of(jobs, 4, policy, Conditions(Settings(cost=INSTANT)))
    assert times == asked_at


def test_reasons_are_kept() -> None:
    said = '{"type":"start","job":1,"size":4,"reason":{"code":"a","for_job":7,"figures":{"b":1}}}'
    for answer, reason in (
        (START, p.Reason("external")),
        (START.replace("}", ',"reason":"mine"}'), p.Reason("mine")),
        (said, p.Reason("a", 7, {"b": 1.0})),
    ):
        records = records_of(
            [rigid("a", 4, 1.0)], 4, external(client(f"say({answer!r}) if count == 1 else say()"))
        )
        assert [each.reason for each in records if isinstance(each, r.JobStarted)] == [reason]


# ---- what goes wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("exec:", "no command; write as in exec:python3 easy.py"),
        ("exec:deadline_s=5:", "no command"),
        ("exec:no-such-command -x", "there is no command 'no-such-command' that can be executed"),
        ("exec:./x.swf", r"there is no command '\./x\.swf' that can be executed"),
        ("exec:sh 'a", "policy command \"exec:sh 'a\": No closing quotation"),
        ("exec:deadlin_s=5:cat", "'exec' has no parameter 'deadlin_s'; did you mean 'deadline_s'"),
        ("exec:deadline_s=soon:cat", "deadline_s is 'soon'; it must be a number"),
        ("exec:deadline_s=0:cat", "deadline_s must be above 0 seconds"),
        ("exec:deadline_s=1:deadline_s=2:cat", "deadline_s is said twice"),
        ("exec:./odd", "cannot be started: Exec format error"),
        ("exec:./nowhere", "cannot be started: No such file"),
        ("exec:false", r"'exec:false' at its start ended with exit code 1$"),
        ("exec:yes", r"at its start answered more than one line: 'y\\ny"),
        ("exec:cat", r"at 0\.000 s answered '\{\"type\":\"pass\".*missing required field `decisions`; docs/external"),
        ("exec:echo hello", "at its start answered 'hello.*malformed.*; docs/external.md has what is told"),
        ("exec:echo '{\"protocol\":2}'", "at its start speaks protocol 2, and this is protocol 1"),
        ("exec:deadline_s=0.2:sleep 60", r"at its start did not answer within 0\.2 s$"),
        ("exec:sh -c 'kill -9 $$'", r"at its start was ended by signal 9 \(Killed\)$"),
        ("exec:sh -c 'tr \"\\0\" x </dev/zero'", "at its start answered more than 1,048,576 bytes without the end"),
        ("exec:sh -c 'exec >&-; exec sleep 60'", "at its start closed its standard output and goes on"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_is_said_before_anything_is_simulated(
    place: Path, monkeypatch: pytest.MonkeyPatch, policy: str, message: str
) -> None:
    monkeypatch.setattr(asked, "ANSWER_BYTES", 1 << 20)
    if "goes on" in message:
        monkeypatch.setattr(asked, "LAST_S", 0.1)
    monkeypatch.setattr(asked, "END_S", 0.1)
    for name, text in (("odd", "\0"), ("nowhere", "#!/no/such/interpreter\n")):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    with pytest.raises(PolicyError, match=message):
        command("simulate", "x.swf", "--policy", policy)
    if r"0\.000" not in message and "quotation" not in message:
        with pytest.raises(PolicyError, match=message):  # not after the first of them
            command("simulate", "x.swf", "--policy", f"easy,{policy}")


FIRST = 'say(\'{"type":"start","job":3,"size":1}\') if count == 1 else '


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("os._exit(3)", r"at 0\.000 s ended with exit code 3 \(free 4 of 4, pending 3, running 0\)"),
        (FIRST + "os._exit(3)", r"at 10\.000 s ended with exit code 3 \(free 4 of 4, pending 2, running 0\)"),
        (FIRST + "os.kill(os.getpid(), 15)", r"at 10\.000 s was ended by signal 15"),
        (FIRST + "print('{', flush=True)", r"at 10\.000 s answered '\{.n': Input data was truncated; docs/external"),
        ("print('[1', flush=True)", r"answered '\[1.n': Expected `object`, got `array`; docs/ext"),
        ("""print('{"decisions":[]}' * 2, flush=True)""", "malformed"),
        ("""print('{"decisions":[]}\\n' * 2, flush=True)""", "answered more than one line"),
        ("""say('{"type":"strat","job":1,"size":1}')""", r"Invalid value 'strat' - at `\$\.decisions\[0\]\.type`"),
        ("""say('{"type":"start","job":1}')""", r"missing required field `size` - at `\$\.decisions\[0\]`"),
        ("""say('{"type":"start","job":1,"size":"all"}')""", "Expected `int`, got `str`"),
        ("""say('{"type":"promise","job":1,"at":NaN}')""", "malformed"),
        ("""say('{"type":"wake","at":1e999}')""", "out of range"),
        ("""say('{"type":"start","job":9,"size":1}')""", r"decided Start\(job=9, .* but there is no such job \(free 4"),
        ("""say('{"type":"start","job":1,"size":2}')""", "but allowed sizes are 3"),
        ("""say('{"type":"resize","job":1,"size":2}')""", "cannot be offered a resize now"),
        ("""say('{"type":"promise","job":0,"at":2}')""", "there is no such job"),
        ("say()", r"is stuck at 0\.000 s: 3 jobs wait"),
        ("os.close(1); time.sleep(60)", r"closed its standard output and goes on \(free 4"),
    ],
)  # fmt: skip
def test_what_goes_wrong_with_a_process_is_said_with_the_time(
    place: Path, monkeypatch: pytest.MonkeyPatch, passes: str, message: str
) -> None:
    if "goes on" in message:
        monkeypatch.setattr(asked, "LAST_S", 0.1)
    monkeypatch.setattr(asked, "END_S", 0.1)
    before = "open('pid', 'w').write(str(os.getpid()))"
    with pytest.raises(PolicyError, match=message):
        command("simulate", "x.swf", "--policy", client(passes, before=before))
    assert not os.path.exists(f"/proc/{int((place / 'pid').read_text())}")  # noqa: PTH110


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("time.sleep(60)", r"at 0\.000 s did not answer within 0\.3 s \(free 4"),
        ("print('{', end='', flush=True); time.sleep(60)", "did not answer within"),
        ("", "did not read what it was told within"),  # it is more than a pipe holds
    ],
)
def test_one_that_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch, passes: str, message: str
) -> None:
    monkeypatch.setattr(asked, "END_S", 0.1)
    jobs = [rigid(f"j{number}", 1, 1.0) for number in range(2000 if "read" in message else 1)]
    name = client(passes or "pass")
    if not passes:
        name = name.replace("for line in sys.stdin:", "for line in [time.sleep(60)]:")
    with external(name) as policy:
        assert policy._process is not None
        policy._process._deadline_s = 0.3  # from now on: the start may take longer
        with pytest.raises(PolicyError, match=message):
            simulate(jobs, 4, policy)


def test_a_process_is_there_while_it_is_needed(place: Path) -> None:
    """It is ended by the end of its input, whatever else becomes of the simulation; another comes for the next."""
    policy = external(client('say(\'{"type":"start","job":1,"size":1}\') if count == 1 else say()'))
    with pytest.raises(PolicyError, match="was not started"):
        simulate([rigid("a", 1, 1.0)], 1, policy)
    pids: list[int] = []
    for _ in range(2):
        with policy:
            assert policy._process is not None
            pids.append(policy._process._process.pid)
            assert os.getpgid(pids[-1]) == pids[-1]
            simulate([rigid("a", 1, 1.0)], 1, policy)
    assert pids[0] != pids[1]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_command_is_ended(place: Path, number: signal.Signals) -> None:
    """Not even one that would go on for ever: its line says that it is asked, the end of the pipe that it has gone."""
    code = "import sys, time; print(input() and '{\"protocol\":1}', flush=True); input(); sys.stderr.write('asked'); time.sleep(60)"
    policy = f"exec:{PYTHON} -u -c {shlex.quote(code)}"
    words = [sys.executable, "-m", "pliant", "simulate", "x.swf", "--policy", policy]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stderr is not None
        assert ran.stderr.read(5) == "asked"
        ran.send_signal(number)
        told = ran.stderr.read()  # to its end: the policy holds it as well
        assert ran.wait(30) in (-number, 128 + number), told
    assert "Traceback" not in told


# ---- on the command line -----------------------------------------------------------------------------


def test_several_policies_are_compared_in_workers(place: Path) -> None:
    """A share of malleable jobs is rigid here, so that the page's EASY is the built-in one."""
    text = f"easy,exec:deadline_s=30:{PYTHON} easy_external.py 'a,b'"
    options = ("lublin:200", "--nodes", "64", "--seeds", "3", "--rigid", "--workers", "2", "--json")
    easy, over_pipe = json.loads(command("simulate", *options, "--policy", text))["rows"]
    assert over_pipe.pop("policy") == text.removeprefix("easy,")
    assert easy.pop("policy") == "easy"
    assert over_pipe == easy
    assert easy["runs"] == 3


def test_names_with_commas() -> None:
    text = """easy, exec:awk -f 'a,b' "c,d",exec:x"""
    assert policy_names(text) == ["easy", """exec:awk -f 'a,b' "c,d\"""", "exec:x"]
    with pytest.raises(PolicyError, match="has an empty name"):
        policy_names("exec:a,,exec:b")
    with pytest.raises(PolicyError, match="No closing quotation"):
        policy_names("easy,exec:it's")
    assert inputs_of("exec:python3 'my easy.py' -x") == ["python3", "my easy.py", "-x"]
    assert inputs_of("mine.py:Mine") == ["mine.py:Mine"]


BATCH = """
[cluster]
nodes = 4
policy = "exec:sh policy.sh"
[[jobs]]
name = "a"
command = "true"
nodes = 4
model = {work_s = 100}
"""


def test_the_policy_of_a_batch(place: Path) -> None:
    (place / "b.toml").write_text(BATCH)
    (place / "policy.sh").write_text(
        """read hello; echo '{"protocol":1}'; read pass; echo '{"decisions":[%s]}'
           while read pass; do echo '{"decisions":[]}'; done""".replace("%s", START)
    )  # fmt: skip
    assert run_of(command("simulate", "b.toml", "--json"))["makespan_s"] == pytest.approx(25.95)
    assert "Predicted by the simulator" in command("run", "b.toml", "--dry-run")
    for more in ([], ["--compare"]):
        with pytest.raises(
            BatchError, match=r"'exec:sh policy\.sh': a policy in a process of its own can only"
        ):
            command("run", "b.toml", "--output", "out", *more)
    with pytest.raises(
        BatchError, match=r"the command line: policy 'exec:cat': .*use pliant simulate or --dry-run"
    ):
        command("run", "--policy", "exec:cat", "--output", "out", "--", "true")
    assert not (place / "out").exists()
    with pytest.raises(BatchError, match=r"policy\.sh: it would be written, and is an input"):
        command("simulate", "b.toml", "--policy", "exec:sh policy.sh", "--jobs-csv", "policy.sh")


def test_options_that_it_does_not_take(place: Path) -> None:
    with pytest.raises(PolicyError, match="'exec:cat' takes no start rule: it chooses the sizes itself"):
        command("simulate", "x.swf", "--policy", "exec:cat", "--start", "min")
    with pytest.raises(PolicyError, match=r"takes no order \(shortest\).*say --order submission"):
        command("simulate", "x.swf", "--policy", "exec:cat", "--order", "shortest")
    assert PolicySpec("exec:cat", order="submission").make().name == "exec:cat"
