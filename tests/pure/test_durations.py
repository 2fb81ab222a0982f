"""Times as users write them, on the command line and in files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from commands import command
from hypothesis import given
from hypothesis import strategies as st

from pliant.model.batch import read_batch
from pliant.model.durations import duration
from pliant.model.errors import BatchError, PliantError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0), ("30min", 1800.0), ("1.5h", 5400.0), ("7d", 604800.0),
        ("1:30:00", 5400.0), ("45:30", 2730.0), ("2-00", 172800.0), ("1-12", 129600.0), ("1-12:30", 131400.0),
        ("1-00:00:05", 86405.0), ("100:00", 6000.0), ("36:00:00", 129600.0), ("0:05", 5.0),
    ],
)  # fmt: skip
def test_units_and_slurms_forms_are_times(text: str, seconds: float) -> None:
    assert duration(text, "-t") == seconds


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_what_slurm_prints_is_read_back(days: int, hours: int, minutes: int, seconds: int) -> None:
    """squeue prints D-HH:MM:SS, and HH:MM:SS or MM:SS of what is shorter than a day or an hour."""
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    forms = [f"{days}-{hours:02}:{minutes:02}:{seconds:02}", f"{days * 24 + hours}:{minutes:02}:{seconds:02}"]
    if not days and not hours:
        forms.append(f"{minutes}:{seconds:02}")
    assert {duration(form, "-t", or_none=True) for form in forms} == {float(total)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-5",
        "5m",
        "1:75:00",
        "1:30:75",
        "2-24",
        "1-2-3",
        "1:2:3:4",
        "2-",
        "nan",
        "inf",
        "1e400",
        "٣",
        "9" * 400 + "-00",
        "9" * 5000 + ":00",
    ],
)
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(BatchError, match=r"^-t: '.*' is no time above 0.*30min.*1:30:00"):
        duration(text, "-t", plain=True)


@given(st.text(max_size=12))
def test_a_text_is_a_time_or_an_error_of_ours(text: str) -> None:
    with suppress(BatchError):
        assert 0 < duration(text, "-t", plain=True) < float("inf")


def test_a_number_alone_is_one_of_seconds_where_that_is_allowed() -> None:
    assert duration("90", "-t", plain=True) == 90.0
    with pytest.raises(BatchError, match="with a unit"):
        duration("90", "mtbf")


def test_a_batch_takes_times_as_texts_too() -> None:
    job = {"name": "a", "command": "x", "nodes": 1, "submit": "1:00", "walltime": "2-00", "kill": True}
    [spec] = read_batch({"cluster": {"nodes": 1}, "jobs": [job]}, "b.toml").jobs
    assert (spec.submit_s, spec.walltime_s) == (60.0, 172800.0)
    for wrong in ("soon", "0s", -5, True):
        with pytest.raises(BatchError, match="walltime: "):
            read_batch({"cluster": {"nodes": 1}, "jobs": [{**job, "walltime": wrong}]}, "b.toml")


@pytest.mark.parametrize("option", ["-t", "--time-limit"])
def test_the_command_line_takes_them(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PliantError, match="model: missing"):  # the time was taken
        command("run", "--dry-run", option, "1:30:00", "--", "true")
    with pytest.raises(
        PliantError, match=f"{option}: '1:30:99' is no time above 0: seconds go up to 59; write it"
    ):
        command("run", "--dry-run", option, "1:30:99", "--", "true")
