"""Places from their start to ``run``: which script they run and where, and what becomes of those that do not come."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import PLIANT, BatchRun, job
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import v4

from pliant.core import records as r

PATIENCE_S = 60.0
RUN = "from pliant.apgas import places, run\nrun(lambda: print(len(places())), places=2)\n"
ELSEWHERE = "import os\nif 'PLIANT_PLACE' in os.environ: "


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            "import sys; sys.exit(3)",
            "place(1) ended with exit code 3 before it came to run() and said nothing",
        ),
        ("os._exit(0)", "place(1) ended with exit code 0 before it came to run()"),
        ("os.kill(os.getpid(), 9)", "place(1) was ended by signal 9 before it came to run()"),
        ("import nothing_of_the_kind", "No module named 'nothing_of_the_kind'"),
        (
            "os.kill(os.getppid(), 9); os._exit(0)",
            "the process that starts places was ended by signal 9",
        ),
        ("import time; time.sleep(600)", "place(1) did not come within 2 s (PLIANT_DEADLINE)"),
    ],
)
def test_a_place_that_ends_before_run_is_noticed_at_once(before: str, said: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"{ELSEWHERE}{before}\n{RUN}")
    env = {**os.environ, "PLIANT_DEADLINE": "2"} if "sleep" in before else None
    done = alone(program.name, cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr.partition("PliantError: ")[2]


def test_a_program_that_no_other_place_could_run_says_so() -> None:
    done = alone("-", given=RUN)
    assert done.returncode == 1
    assert "PliantError: other places run the program's script from its start" in done.stderr


@pytest.mark.parametrize(
    ("words", "script"), [("./program.py", "program.py"), ("program", "program/__main__.py")]
)
def test_places_begin_where_the_program_began_and_read_no_input(
    words: str, script: str, tmp_path: Path
) -> None:
    """Started by a relative name that is none any more where the program has gone."""
    (tmp_path / script).parent.mkdir(exist_ok=True)
    (tmp_path / script).write_text(
        "import os, sys\n"
        "import pliant.apgas\n"
        "os.mkdir(f'{os.getpid()}')\n"
        "os.chdir('/')\n"
        "if 'PLIANT_PLACE' in os.environ: assert sys.stdin.read() == ''\n" + RUN
    )
    done = alone(words, cwd=tmp_path, given="input")
    assert done.stdout == "2\n", done.stderr
    assert len(list(tmp_path.iterdir())) == 3, "each place has begun where this one has"


@pytest.mark.parametrize(
    "words",
    [["program.py", "-c"], ["-W", "error", "program.py"], ["-um", "program", "3"], ["-c", "{code}", "3"]],
)
def test_the_script_finds_at_each_place_what_it_finds_at_place_0(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys, warnings\n"
        "from pliant.apgas import at, place, run\n"
        "found = [__name__, sys.argv, sys.orig_argv[-2:], sys.path[:2], warnings.filters[0][:1], sys.flags[:]]\n"
        "run(lambda: print(found == at(place(1), lambda: found), found), places=2)\n"
    )
    (tmp_path / "program.py").write_text(code)
    done = alone(*[word.format(code=code) for word in words], cwd=tmp_path)
    assert done.stdout.startswith("True ['__main__', "), done.stdout + done.stderr


def test_a_program_that_a_task_starts_is_none_of_its_places() -> None:
    inner = "from pliant.apgas import places, run; run(lambda: print(len(places())), places=2)"
    outer = (
        "import subprocess, sys\n"
        "from pliant.apgas import at, place, run\n"
        f"words = [sys.executable, '-c', {inner!r}]\n"
        "run(lambda: print(at(place(1), lambda: subprocess.check_output(words))), places=3)\n"
    )
    done = alone("-c", outer)
    assert done.stdout == f"{b'2' + bytes([10])!r}\n", done.stderr


def test_the_trace_of_an_error_begins_in_the_script(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{ELSEWHERE}open('/nowhere')\n{RUN}")
    done = alone("program.py", cwd=tmp_path)
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.splitlines()[1].endswith('program.py", line 2, in <module>')


@pytest.mark.parametrize("words", [["-N", "2", "--kind", "places"], ["-N", "1:2"]])
def test_a_script_on_the_input_of_a_job_is_refused_at_once(words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [PLIANT, "run", *words, "--", "python", "-"],
        input=RUN, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "it reads its script from standard input" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_notebook_is_told_why_it_has_one_place_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    cells = [RUN.replace(", places=2", ""), RUN]
    book: Any = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    with pytest.raises(CellExecutionError, match="save it as a file: PLIANT_PLACES=3 python FILE"):
        NotebookClient(book, kernel_name="python3", timeout=PATIENCE_S).execute()
    assert book.cells[0].outputs[0].text == "1\n"


def test_a_place_starts_without_what_it_does_not_need() -> None:
    """Many places on one machine start as quickly as their imports let them."""
    code = "import sys, pliant.apgas; print(*{'asyncio', 'ssl', 'numpy', 'pliant.job.session'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "\n"


@pytest.mark.long
def test_many_places_all_hear_of_the_end(tmp_path: Path) -> None:
    """The program is over before the first has been connected to all of them."""
    (tmp_path / "program.py").write_text(RUN.replace("places=2", "places=32"))
    done = alone("program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "32\n", "")


def alone(*words: str, given: str = "", **keys: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **keys,
    )


def test_a_job_goes_on_at_once_without_a_place_that_ends_before_run(
    start: Callable[..., BatchRun], tmp_path: Path
) -> None:
    """Its deadline is longer than this test waits."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os\nif os.environ['PLIANT_GROUP'] == '1': os._exit(0)\n"
        "from pliant.apgas import places, run\nrun(lambda: str([each.id for each in places()]))\n"
    )
    run = start("nodes = 3", job("dies", f"python {program}", "3", kind="places"))
    dies = run.finish()["dies"]
    assert (dies["state"], dies["result"]) == ("COMPLETED", "[0, 2]"), run.story()
    assert "ended with exit code 0 before it came to run()" in run.wait_for(r.GroupsLost).why
