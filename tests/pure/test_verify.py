"""Checks of results: what kept one from being made is told apart from a wrong result, and both from a right one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest
from report_runs import one_resize
from rich.console import Console
from typer.testing import CliRunner

from pliant.cli import made
from pliant.cli.execute import exit_code
from pliant.launch.verify import unusable, verify
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds, Check, JobSpec
from pliant.page.html import page
from pliant.report.compare import warnings
from pliant.report.data import report_json
from pliant.report.runs import RESULT_WIDTH, Run
from pliant.terminal.failures import told
from pliant.terminal.tables import job_table

LONG = "ea32798f69051583d6a4d99402736f1897e1c2e73d71052bdc1eae7b9415587a"


def job(*command: str, cwd: Path | str = "", **env: str) -> JobSpec:
    return JobSpec(name="a", nodes=Bounds.exactly(1), verify=command, cwd=str(cwd), env=env)


def shell(script: str) -> JobSpec:
    return job("sh", "-c", script)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a check that works, one that is not executable, and one that is no program."""
    for name, mode, text in (
        ("good.sh", 0o755, "#!/bin/sh\necho 42\n"),
        ("plain.sh", 0o644, "#!/bin/sh\necho 42\n"),
        ("nothing", 0o755, "\0\0no program"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    return tmp_path


def test_a_result_is_right_or_wrong_and_wrong_says_what_was_expected() -> None:
    assert verify([shell("echo noise; echo 42; echo")], {"a": "42"}) == {"a": Check(True, "42")}
    assert verify([shell("echo 42")], {"a": "41"}) == {"a": Check(False, "42")}
    assert verify([shell("echo 42")], {"a": None}) == {"a": Check(False, "42")}
    assert verify([shell("echo 42")], {}) == {}  # it did not complete
    assert verify([shell("printf '\\377\\n'")], {"a": "x"})["a"].verified is False  # not UTF-8


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 42; echo why >&2; exit 3", "exited with 3: {}: why"),
        ("kill -9 $$", "ended by signal 9: {}"),
        ("echo; echo why >&2", "printed nothing: {}; its last line is what the result must equal"),
        ("exec sleep 600", "no end within 0.2 s: {}"),
    ],
)
def test_a_command_that_cannot_tell_makes_no_result_wrong(script: str, said: str) -> None:
    check = verify([shell(script)], {"a": "42"}, patience_s=0.2 if "sleep" in script else 60.0)["a"]
    assert (check.verified, check.expected) == (None, None)
    assert check.problem == said.format(f"sh -c '{script}'")


def test_a_command_that_cannot_be_started_says_why(place: Path) -> None:
    def problem(each: JobSpec) -> str:
        return verify([each], {"a": "42"})["a"].problem

    missing = job("no-such-check", "--strict", cwd=place)
    assert problem(missing) == unusable(missing) != ""
    assert unusable(missing) == (
        "command not found: no-such-check, in the job's PATH; install it, or name it by its path"
    )
    gone = job("./gone.sh", cwd=place)
    assert (
        problem(gone)
        == unusable(gone)
        == (f"command not found: ./gone.sh, in {place}; install it, or name it by its path")
    )
    plain = job("./plain.sh", cwd=place)
    assert (
        problem(plain)
        == unusable(plain)
        == (f"command not executable: {place}/plain.sh; chmod +x it, or name the program that runs it")
    )
    assert problem(job("./nothing", cwd=place)) == "Exec format error: ./nothing"


def test_a_command_is_looked_for_where_it_will_be_started(place: Path) -> None:
    found = (
        job("./good.sh", cwd=place),
        job(str(place / "good.sh")),
        job("good.sh", PATH=str(place)),
        job("good.sh", cwd=place, PATH="."),
        job(Path(sys.executable).name),
        job(),
    )
    assert [unusable(each) for each in found] == [""] * len(found)
    for each in found[:4]:
        assert verify([each], {"a": "42"})["a"] == Check(True, "42")
    assert unusable(job("good.sh", cwd=place)) != ""
    assert unusable(job("./good.sh", cwd=place / "not-yet")) == ""  # the job itself will say it


@pytest.mark.parametrize("more", [[], ["--rigid"], ["--compare"]])
def test_a_run_with_a_missing_check_is_refused_before_it_starts(tmp_path: Path, more: list[str]) -> None:
    batch = tmp_path / "batch.toml"
    batch.write_text("[[jobs]]\nname = 'ocean'\ncommand = 'true'\nverify = 'no-such-check --strict'\n")
    out = tmp_path / "out"
    result = CliRunner().invoke(made(), ["run", str(batch), "--output", str(out), *more])
    assert isinstance(result.exception, PliantError)
    assert str(result.exception).startswith(
        f"{batch}: job 'ocean': verify: command not found: no-such-check, in"
    )
    assert not out.exists()


def with_check(check: Check) -> Run:
    """``solver`` completed with the result 42; ``head`` failed."""
    base = one_resize()
    return Run(base.name, base.policy, base.names, base.records, {"solver": check})


def row(run: Run, width: int = 120) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(job_table(run, width))
    return capture.get().partition("head ")[0]


def test_the_table_shows_the_result_with_the_verdict() -> None:
    assert row(with_check(Check(True, "42"))).rstrip().endswith(" ✓ as expected")
    wrong = row(with_check(Check(False, "43.5")))
    assert "✗ WRONG: 42" in wrong
    assert "expected: 43.5" in wrong
    unchecked = row(with_check(Check(problem="command not found: check.sh")))
    assert "not checked: command not found: check.sh" in unchecked
    assert "42" in unchecked
    assert row(one_resize()).rstrip().endswith(" 42")


def test_a_long_result_is_shortened_to_fit() -> None:
    base = one_resize()
    records = [
        msgspec.structs.replace(each, result=LONG) if getattr(each, "result", None) else each
        for each in base.records
    ]
    run = Run(base.name, base.policy, base.names, records, {"solver": Check(True, LONG)})
    assert len(row(run, 80).splitlines()) == 2  # head and row
    assert row(run, 80).rstrip().endswith(" ✓ as expected")
    assert "ea32798f" not in row(run, 120)  # what it is need not be read where it is as expected
    unverified = Run(base.name, base.policy, base.names, records)
    assert row(unverified, 120).rstrip().endswith(f" {LONG[: RESULT_WIDTH - 1]}…")


def test_all_of_it_stands_below_the_table_and_in_the_report() -> None:
    wrong, unchecked = (
        with_check(Check(False, LONG)),
        with_check(Check(problem="command not found: check.sh")),
    )
    lines = [line.plain for line in told([wrong])]
    assert lines[-3:] == ["the result of job solver is WRONG", f"    expected: {LONG}", "    it gave:  42"]
    lines = [line.plain for line in told([unchecked])]
    assert lines[-1] == "the result of job solver was not checked: verify: command not found: check.sh"
    data = [json.loads(report_json([run]))["runs"][0]["jobs"][0] for run in (wrong, unchecked)]
    assert [(each["verified"], each["expected"], each["unchecked"]) for each in data] == [
        (False, LONG, ""),
        (None, None, "command not found: check.sh"),
    ]
    assert f"42, expected {LONG[:20]}" in page([wrong])
    text = page([unchecked])
    assert "result not checked" in text
    assert "WRONG" not in text
    assert (
        "the result of solver could not be checked: command not found: check.sh." in warnings([unchecked])[0]
    )


def test_a_result_that_could_not_be_checked_is_no_success() -> None:
    base = one_resize()
    good = Run("a", "easy", base.names, [each for each in base.records if getattr(each, "job", 1) == 1])
    assert exit_code([good]) == 0
    assert exit_code([Run("a", "easy", base.names, good.records, {"solver": Check(True, "42")})]) == 0
    unchecked = Run(
        "a", "easy", base.names, good.records, {"solver": Check(problem="command not found: check.sh")}
    )
    assert exit_code([unchecked]) == 1
    assert not unchecked.differing
