"""``pliant run`` refuses what cannot work before anything starts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import command
from typer.testing import CliRunner

from pliant.cli import made
from pliant.cli.run import JobOptions, _batch
from pliant.cli.run_input import script_is_input
from pliant.model.errors import PliantError

BATCH = """
[cluster]
nodes = 4
[[jobs]]
name = "a"
command = "true"
nodes = {nodes}
{more}
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to run"),
        (["no.toml"], "cannot be read"),
        (["-N", "9", "--", "true"], "needs 9 nodes and the cluster has 8"),
        (["-N", "3:1", "--", "true"], "max 1 is below min 3"),
        (["--policy", "eazy", "--", "true"], "did you mean 'easy'"),
        (["--order", "shortst", "--", "true"], "no order 'shortst'; did you mean 'shortest'"),
        (["--policy", "marginal", "--start", "min", "--", "true"], "'marginal' has no start rule"),
        (["-t", "5", "--time-limit", "5", "--", "true"], "-t and --time-limit: give one of them"),
        (["--time-limit", "0", "--", "true"], "--time-limit: '0' is no time above 0"),
        (["-N", "2", "b.toml"], "-N is for a command; in b.toml, give each job its nodes"),
        (["-t", "5", "b.toml"], "-t is for a command; in b.toml, give each job its walltime"),
        (
            ["--time-limit", "60", "b.toml"],
            "in b.toml, give each job that shall be ended walltime = 60 and kill",
        ),
        (["--report", "x.json", "--", "true"], "name the HTML file"),
        (["--report", "/no/such/x.html", "--", "true"], "no directory"),
        (["--hosts", "a,b", "--nodes", "3", "--", "true"], "has 3 nodes, and there are 2 hosts for it"),
        (["--hosts", "a,b,a", "--", "true"], "--hosts: a twice; a node is there once"),
        (["--hosts", "a[3-x]", "--", "true"], "is no hostlist"),
        (["--hosts", "a", "--degree", "0", "--", "true"], "--degree: '0' is no tree"),
        (
            ["--hosts", "a", "--provider", "slurm", "--", "true"],
            "--hosts names the nodes of ssh, and of it alone",
        ),
        (["--provider", "ssh", "--", "true"], "--hosts names the nodes of ssh"),
        (["--provider", "slurm", "--", "true"], "no Slurm allocation here: SLURM_JOB_NODELIST is not set"),
        (["--ssh-option=-p2", "--", "true"], "--ssh-option is for nodes that are reached by ssh"),
        (["--interface", "lo", "--", "true"], "--interface and --degree are for --hosts"),
        (["--hostfile", "/no/such", "--", "true"], "--hostfile /no/such: No such file or directory"),
        (
            ["--hostfile", "/dev/null", "--", "true"],
            "--hostfile /dev/null: it names no host; write one a line",
        ),
        (
            ["--hosts", "a", "--hostfile", "/dev/null", "--", "true"],
            "--hosts and --hostfile: give one of them",
        ),
        (["--hosts", "a,a.b.org", "--", "true"], "--hosts: a and a.b.org may be one host; name it once"),
    ],
)
def test_a_command_line_that_cannot_work_is_refused(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(made(), ["run", *arguments])
    assert isinstance(result.exception, PliantError)
    assert said in str(result.exception)


@pytest.mark.parametrize(
    ("nodes", "more", "said"),
    [
        ("{ min = 3, max = 2 }", "", "job 'a': nodes: max 2 is below min 3"),
        ("{ min = 1, max = 4, factor = 2, preferred = 3 }", "", "job 'a': nodes: preferred 3"),
        ("5", "", "job 'a': nodes: it needs 5 nodes and the cluster has 4"),
        ("1", "submit = -1", "job 'a': submit"),
        ("1", "nods = 2", "job 'a': unknown key 'nods'; did you mean 'nodes'"),
    ],
)
def test_a_batch_that_cannot_work_names_file_job_and_key(
    tmp_path: Path, nodes: str, more: str, said: str
) -> None:
    path = tmp_path / "batch.toml"
    path.write_text(BATCH.format(nodes=nodes, more=more))
    result = CliRunner().invoke(made(), ["run", str(path), "--output", str(tmp_path / "out")])
    assert isinstance(result.exception, PliantError)
    assert str(result.exception).startswith(f"{path}: {said}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_the_start_rule_of_a_batch_goes_with_its_own_policy(tmp_path: Path, command: str) -> None:
    """Marginal takes none, and may be tried on a batch that states one for another policy."""
    path = tmp_path / "batch.toml"
    text = BATCH.replace("[cluster]", "[cluster]\nstart = 'min'")
    path.write_text(text.format(nodes="{ min = 1, max = 4 }", more="model = { work_s = 40.0 }"))
    options = ["--dry-run"] if command == "run" else []
    result = CliRunner().invoke(made(), [command, str(path), *options, "--policy", "marginal"])
    assert result.exit_code == 0, result.output


def test_a_job_is_called_after_its_program(tmp_path: Path) -> None:
    for words, name in (
        (["python", "-m", "pliant.apps.heat", "--steps", "5"], "heat"),
        (["./relax.py"], "relax.py"),
        (["/usr/bin/python3", "ocean.py"], "ocean"),
    ):
        assert _batch(words, JobOptions("1", 60.0)).jobs[0].name == name


@pytest.mark.parametrize(
    ("walltime", "time_limit", "expected"),
    [(None, None, (3600.0, False)), (60.0, None, (60.0, False)), (None, 60.0, (60.0, True))],
)
def test_a_time_limit_ends_a_command_and_a_walltime_does_not(
    walltime: float | None, time_limit: float | None, expected: tuple[float, bool]
) -> None:
    [job] = _batch(["true"], JobOptions("1", walltime, time_limit)).jobs
    assert (job.walltime_s, job.kill) == expected


def test_a_dry_run_predicts_and_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "batch.toml"
    path.write_text(BATCH.format(nodes="{ min = 1, max = 4 }", more="model = { work_s = 40.0 }"))
    result = CliRunner().invoke(
        made(), ["run", str(path), "--dry-run", "--compare", "--output", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    assert "nothing was started" in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("said", "options", "nodes"),
    [
        ("", ["--hosts", "node[08-10]"], "node[08-10]"),
        ("nodes = 2", ["--hosts", "node[08-10]"], "node[08-09]"),
        ("nodes = 2", ["--hosts", "node[08-10]", "--nodes", "3"], "node[08-10]"),
        ("nodes = 2", ["--provider", "slurm"], "cn[1,3]"),
        ("nodes = 4", ["--provider", "slurm"], ""),
        ("nodes = 2", [], "n[0-1]"),
    ],
)
def test_the_nodes_are_the_first_of_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, options: list[str], nodes: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "cn[1,3,7]")
    path = tmp_path / "batch.toml"
    text = BATCH.format(nodes="{ min = 2, max = 9 }", more="model = { work_s = 40.0 }")
    path.write_text(text.replace("nodes = 4", said))
    words = ["run", str(path), *options, "--rigid", "--dry-run", "--json"]
    if not nodes:
        with pytest.raises(PliantError, match="the cluster has 4 nodes, and there are 3 hosts for it"):
            command(*words)
        return
    [run] = json.loads(command(*words))["runs"]
    assert run["nodes"] == nodes


def test_of_a_lone_job_no_means_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "batch.toml"
    path.write_text(BATCH.format(nodes="1", more="model = { work_s = 40.0 }"))
    assert "utilisation" not in command("run", str(path), "--dry-run")
    assert "utilisation" in command("run", str(path), "--dry-run", "--compare")
    path.write_text(path.read_text().replace('name = "a"', 'name = "a"\ncount = 2'))
    assert "utilisation" in command("run", str(path), "--dry-run")


def test_with_json_what_went_wrong_is_told_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "batch.toml"
    more = "model = { work_s = 40.0 }\nwalltime = 10\nkill = true"
    path.write_text(BATCH.format(nodes="1", more=more))
    report = tmp_path / ("a" * 100 + "[b].html")
    result = CliRunner().invoke(made(), ["run", str(path), "--dry-run", "--json", "--report", str(report)])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["runs"][0]["jobs"][0]["state"] == "TIMEOUT"
    assert "job a TIMEOUT: walltime of 10 s is over" in result.stderr.splitlines()
    assert f"report: {report}, data: {report.with_suffix('.json')}" in result.stderr.splitlines()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--label", "gpu"], "--label: label 'gpu' names no node; write gpu=n[0-3]"),
        (["--label", "=n1"], "--label: '' is no label"),
        (["--label", "gpu=node7"], "labels: 'node7' is no virtual node; they are called n0, n1, ..."),
        (["--label", "gpu=c", "--hosts", "a,b"], "labels: 'c' is none of the hosts; there are a,b"),
    ],
)
def test_labels_of_nodes_that_cannot_be_are_named(options: list[str], problem: str) -> None:
    with pytest.raises(PliantError, match=re.escape(problem)):
        command("run", "--dry-run", *options, "--", "true")


@pytest.mark.parametrize(
    ("words", "is_input"),
    [
        ("python -", True),
        ("/usr/bin/python3.12", True),
        ("python -u -", True),
        ("python -W error -", True),
        ("python -W error program.py", False),
        ("python -Wm -", True),
        ("python -uX importtime -", True),
        ("python program.py -", False),
        ("python -c pass -", False),
        ("python -uc pass", False),
        ("python -m module -", False),
        ("python -mmodule -", False),
        ("python --version", False),
        ("python -V", False),
        ("cat -", False),
    ],
)
def test_a_python_that_takes_its_script_from_standard_input_is_known(words: str, is_input: bool) -> None:  # noqa: FBT001
    assert script_is_input(words.split()) == is_input
