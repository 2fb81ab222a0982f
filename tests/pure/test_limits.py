"""What is too large to be meant is refused before it is expanded, and the message names the limit."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import command

from pliant.core import records as r
from pliant.model.batch import read_batch
from pliant.model.errors import BatchError, PliantError
from pliant.model.limits import NAME_BYTES, as_name, name_problem
from pliant.model.nodes import NodeSet, parse_hostlist


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n[0-99999999999]", "at most 65,536 nodes"),
        ("n[0-9999999999999999999999999]", "no number or range"),
        ("n[0-40000],x[0-40000]", "at most 65,536 nodes"),
        ("n[" + ",".join(["0-9999"] * 9) + "]", "at most 65,536 nodes"),
        ("x" * 60_000 + "[0-65535]", "more than 253 characters"),
        ("n[0-999][0-999]", "at most 65,536 nodes"),
        ("n[5-2]", "runs backwards"),
        ("n[²]", "no number or range"),
        ("n[" + "9" * 5000 + "]", "no number or range"),
    ],
)
def test_a_hostlist_is_bounded_before_it_is_expanded(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_hostlist(text)
    assert len(str(caught.value)) < 300


def test_a_hostlist_of_the_largest_size() -> None:
    assert len(parse_hostlist("n[0-65535]")) == 65_536


@pytest.mark.parametrize("text", ["0-99999999999", "7,1048576", "9" * 30, "9" * 5000, "3-"])
def test_sets_of_nodes_are_bounded_wherever_they_are_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"at most 1,048,576|no number or range"):
        NodeSet.parse(text)
    line = b'{"record":"NodesGranted","at":0.0,"nodes":"%s"}' % text.encode()
    with pytest.raises(ValueError, match=r"at most 1,048,576|no number or range"):
        r.from_line(line)


def _batch(cluster: str = "", **keys: Any) -> str:
    """Why the batch is refused."""
    job = {"name": "anna", "command": "true", **keys}
    with pytest.raises(BatchError) as caught:
        read_batch({"cluster": tomllib.loads(cluster), "jobs": [job]}, "b.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"nodes": {"min": 1, "max": 10**9}}, "job 'anna': nodes: max: 1,000,000,000 is too many; the most is 1,048"),
        ({"nodes": 10**9}, "the most is 1,048,576"),
        ({"nodes": "1:" + "9" * 5000}, "is neither a number nor min:max"),
        ({"nodes": "1:1000000000"}, "the most is 1,048,576"),
        ({"count": 10**9}, "job 'anna': count: 1,000,000,000 is too many; the most is 100,000"),
        ({"name": "x" * 300}, "name: it has 300 bytes, and the most is 251"),
        ({"name": "é" * 126}, "name: it has 252 bytes"),
        ({"name": "x" * 247, "count": 1000}, "name: it has 252 bytes"),
        ({"name": "a\nb"}, r"control character '\n'"),
        ({"name": "\x1b[31mred"}, r"control character '\x1b'"),
        ({"name": "a\u2028b"}, r"control character '\u2028'"),
        ({"env": {"A=B": "c"}}, "env: 'A=B' cannot be the name"),
        ({"submit": 10**400}, "submit: expected seconds"),
        ({"submit": 1e299}, "job 'anna': submit: 1e+299 s are too many; the most is 1e+12"),
        ({"model": {"work_s": 10**400}}, "model"),
        ({"model": {"times": {"1": 10**400}}}, "model"),
    ],
)  # fmt: skip
def test_a_job_of_a_batch_is_bounded(keys: dict[str, Any], said: str) -> None:
    assert said in _batch(**keys)


def test_a_batch_is_bounded() -> None:
    assert "cluster: nodes: 10,000,000 is too many; the most is 1,048,576" in _batch("nodes = 10_000_000")
    assert "cluster: slots: 10,000,000 is too many; the most is 256" in _batch("slots = 10_000_000")
    jobs = [{"name": f"j{i}", "command": "true", "count": 100_000} for i in range(2)]
    with pytest.raises(BatchError, match="with job 2 there are 200,000 jobs; the most is 100,000"):
        read_batch({"jobs": jobs}, "b.toml")


def test_a_name_of_the_largest_size_names_a_file(tmp_path: Path) -> None:
    name = "é" * (NAME_BYTES // 2)
    assert name_problem(name) is None
    (tmp_path / f"{name}.log").touch()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ocean.py", "ocean.py"),
        ("caf\udce9", "caf_"),
        ("a\nb", "a_b"),
        ("..", "job"),
        ("", "job"),
        ("é" * 200, "é" * 125),
    ],
)
def test_a_job_without_a_name_gets_one_that_it_can_have(text: str, name: str) -> None:
    assert as_name(text) == name
    assert name_problem(name) is None


def test_a_file_with_a_number_of_5000_digits_is_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(f"[cluster]\nnodes = {'9' * 5000}\n")
    with pytest.raises(BatchError, match="is no TOML"):
        command("run", str(file))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--nodes", "1000000", "--", "true"], "1,000,000 nodes are too many to run"),
        (["run", "--rigid", "--nodes", "4097", "--", "true"], "each is a process, and the most is 4,096"),
        (["run", "-N", "1:1000000000", "--", "true"], "the most is 1,048,576"),
        (["simulate", "lublin:100", "--nodes", "1000000000"], "the most is 1,048,576"),
        (["simulate", "lublin:1000000000"], "1,000,000,000 is too many; the most is 10,000,000"),
        (["simulate", "feitelson:" + "9" * 5000], "is no whole number"),
        (["simulate", "lublin:20,load=1e-290"], "the latest is 1e+12 s"),
        (["resize", "a", "²"], "no number of nodes"),
        (["resize", "a", "9" * 5000], "no number of nodes"),
    ],
)
def test_a_command_line_is_bounded(arguments: list[str], said: str) -> None:
    with pytest.raises(PliantError) as caught:
        command(*arguments)
    assert said in str(caught.value)


def test_a_large_machine_can_still_be_simulated(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(
        "[cluster]\nnodes = 1048576\n[[jobs]]\ncommand = 'true'\nnodes = {min = 1, max = 1048576}\n"
        "model = {work_s = 1000}\n"
    )
    assert "mean wait" in command("simulate", str(file))


def test_a_trace_whose_machine_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.swf"
    file.write_text("; MaxProcs: 100000000\n1 0 -1 10 1 -1 -1 1 10 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    with pytest.raises(BatchError, match="100,000,000 nodes are too many to simulate"):
        command("simulate", str(file))
