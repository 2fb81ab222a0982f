"""No traceback where names are no UTF-8, the current directory is gone, or the terminal has few letters."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pliant.cli import told_by_the_system
from pliant.terminal.glyphs import SPELLED

pytestmark = pytest.mark.long

# All of them in one process, as starting one takes longest: prints [arguments, exit code, kind of traceback].
VERBS = """
import json, os, sys
if sys.argv[2:]:
    os.mkdir(sys.argv[2]); os.chdir(sys.argv[2]); os.rmdir(sys.argv[2])
from pliant.cli import main
ends = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["pliant", *arguments]
    kind = ""
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException as error:
        kind = repr(error)
    sys.stdout.flush()
    ends.append([arguments, code, kind])
print("ENDS", json.dumps(ends), file=sys.stderr)
"""


def verbs(
    tmp_path: Path, *commands: list[str], gone: bool = False, **env: str
) -> tuple[list[tuple[int, str]], str, str]:
    """Exit code and traceback of each command, and what they wrote to standard output and error."""
    arguments = [json.dumps(commands), *([str(tmp_path / "gone")] if gone else [])]
    with tempfile.TemporaryDirectory(prefix="plt", dir="/tmp") as runtime:
        done = subprocess.run(
            [sys.executable, "-c", VERBS, *arguments],
            cwd=tmp_path, capture_output=True, check=False,
            env={**os.environ, "COLUMNS": "60", "XDG_RUNTIME_DIR": runtime, **env},
        )  # fmt: skip
    said, _, ends = done.stderr.decode("latin-1").rpartition("ENDS ")
    assert ends, said
    return [(code, kind) for _, code, kind in json.loads(ends)], done.stdout.decode("latin-1"), said


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """A batch in every script, of which what is shown is cut."""
    path = tmp_path / "batch.toml"
    path.write_text(
        "[cluster]\nnodes = 4\n"
        + "".join(
            f"[[jobs]]\nname = '{name}'\nsubmit = {submit}\ncommand = 'true'\nmodel = {{ work_s = 40 }}\n"
            "nodes = { min = 1, max = 4 }\n"
            for submit, name in enumerate(("océan", "海洋" * 12, "✓▲…±"))
        ),
        encoding="utf-8",
    )
    return path


HELPS = [[], ["run"], ["reproduce"], ["bench"], ["simulate"], ["calibrate"], ["doctor"], ["queue"], ["demo"]]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_with_few_letters(tmp_path: Path, batch: Path, encoding: str) -> None:
    ends, out, said = verbs(
        tmp_path,
        *[[*verb, "--help"] for verb in HELPS],
        ["policies"],
        ["run", str(batch), "--dry-run", "--compare"],
        ["simulate", str(batch), "--policy", "easy,malleable", "--workers", "1"],
        ["simulate", "lublin:50", "--nodes", "32", "--malleable", "0,50", "--seeds", "2", "--workers", "1"],
        ["resize", "✓", "✓"],
        PYTHONIOENCODING=encoding,
    )
    assert ends == [(0, "")] * (len(ends) - 1) + [(2, "")], said
    assert "makespan" in out
    assert ("mean ± 95 %" if encoding != "ascii" else "mean +- 95 %") in out


def test_signs_are_spelled_in_letters_that_are_there() -> None:
    assert "▲ 3 ✓ … ± 海".encode("ascii", SPELLED) == b"^ 3 + ~ +- ?"
    assert "▲±".encode("latin-1", SPELLED) == b"^\xb1"
    assert "caf\udce9".encode("utf-8", SPELLED) == b"caf?"


def test_names_that_are_no_utf_8(tmp_path: Path, batch: Path) -> None:
    """Files are read and written under any name; what would have to travel as text is refused with a sentence."""
    odd = "caf\udce9"
    (tmp_path / f"{odd}.toml").write_bytes(batch.read_bytes())
    (tmp_path / odd).mkdir()
    works = [
        ["run", f"{odd}.toml", "--dry-run", "--report", f"{odd}.html"],
        ["simulate", f"{odd}.toml", "--jobs-csv", f"{odd}.csv"],
        ["simulate", f"{odd}.toml", "--policy", "easy,malleable", "--workers", "1"],
    ]
    refused = {
        ("run", "batch.toml", "--output", odd): r"the file of its output: '",
        ("run", "--", odd): r"command: 'caf\udce9' is no text in UTF-8",
        ("run", "--", "python", f"{odd}.py"): r"command: 'caf\udce9.py' is no text in UTF-8",
        ("demo", "--output", odd): "is no text in UTF-8",
        ("run", f"no{odd}.toml"): "cannot be read",
        ("simulate", f"no{odd}.swf"): "cannot be read",
        ("calibrate", odd): "cannot be read",
        ("run", "batch.toml", "--policy", f"{odd}.py"): "there is no such file",
        ("run", "batch.toml", "--cost", odd): "cannot be read",
        ("resize", odd, odd): "no number of nodes",
        ("resize", odd, "1"): "no run goes on",
        ("queue", "--run", odd): "no run goes on",
        ("reproduce", "scheduling", "--traces", odd): "is not in",
        ("bench", "agreement", "--records", odd): "cannot be read",
        (odd,): "No such command",
    }
    ends, _, said = verbs(
        tmp_path, *works, *map(list, refused), PYTHONIOENCODING="utf-8", TMPDIR=str(tmp_path)
    )
    assert ends == [(0, "")] * len(works) + [(2, "")] * len(refused), said
    for sentence in refused.values():
        assert sentence in said
    assert not (tmp_path / odd / "records.ndjson").exists()
    assert (tmp_path / f"{odd}.html").stat().st_size
    ends, _, said = verbs(tmp_path, ["run", "--", "true"], PATH=f"/{odd}:{os.environ['PATH']}")
    assert ends == [(2, "")]
    assert "env.PATH: " in said


def test_a_directory_that_is_no_utf_8(tmp_path: Path, batch: Path) -> None:
    place = tmp_path / "caf\udce9"
    place.mkdir()
    ends, _, said = verbs(
        place, ["run", str(batch), "--output", str(tmp_path / "out")], ["simulate", str(batch)]
    )
    assert ends == [(2, ""), (0, "")]
    assert "cwd: " in said
    assert not (tmp_path / "out").exists()


def test_a_current_directory_that_is_gone(tmp_path: Path, batch: Path) -> None:
    gone = "the current directory is gone (No such file or directory); go to one that exists"
    work = [
        ["policies"],
        ["--help"],
        ["simulate", str(batch)],
        ["run", str(batch), "--dry-run"],
    ]
    refused = [
        ["run", str(batch)],
        ["run", str(batch), "--output", str(tmp_path / "out")],
        ["run", "--", "true"],
        ["demo"],
        ["simulate", str(batch), "--report", "r.html"],
        ["simulate", "lublin:50", "--malleable", "0,50", "--workers", "2"],
        ["reproduce", "scheduling", "--out", str(tmp_path / "rep"), "--only", "paper2", "--quick"],
    ]
    others = [["queue"], ["calibrate", "no.ndjson"], ["doctor", "--json"]]
    ends, out, said = verbs(tmp_path, *work, *refused, *others, gone=True)
    assert ends == [(0, "")] * len(work) + [(2, "")] * len(refused) + [(0, ""), (2, ""), (1, "")], said
    assert said.count(gone) == len(refused), said
    assert gone in out  # doctor's finding
    assert not (tmp_path / "out").exists()


def test_errors_of_the_system_that_a_user_can_mend_are_a_line_and_no_others() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/x/y")
    assert told_by_the_system(full) == "/x/y: No space left on device"
    assert told_by_the_system(OSError(errno.EMFILE, "Too many open files")) == "Too many open files"
    assert told_by_the_system(FileNotFoundError(errno.ENOENT, "No such file", "page.css")) is None
    assert told_by_the_system(FileNotFoundError(errno.ENOENT, "No such file")) is None
    assert told_by_the_system(ConnectionResetError()) is None
    with pytest.raises(UnicodeEncodeError) as caught:
        "a\udce9".encode()
    assert told_by_the_system(caught.value) == r"'a\udce9' is no text in UTF-8"
    with pytest.raises(UnicodeEncodeError) as caught:
        "é".encode("ascii")
    assert told_by_the_system(caught.value) is None


def test_a_ctrl_c_while_the_command_loads_shows_no_traceback() -> None:
    program = (
        "import importlib.abc, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'pliant.cli': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from pliant.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
