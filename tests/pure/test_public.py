"""What users import of ``pliant``: cheap, complete, and what the documents use."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import command

import pliant
from pliant import Amdahl, PliantError, PolicyError, Start, apgas, mpi, testing
from pliant.model import errors, speedup
from pliant.policy import view

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/pliant"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path) -> list[str]:
    """The programs of a page."""
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def imported(text: str) -> list[tuple[str, str]]:
    """(module, name) of each import from a module in a program."""
    froms = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", each.name) for node in froms for each in node.names]


def test_the_import_of_pliant_loads_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import pliant; print(sorted(set(sys.modules) - before))"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "['pliant']"


EXTRAS = ("numpy", "mpi4py", "cloudpickle", "numba", "zmq", "matplotlib", "scipy", "networkx", "hypothesis")


@pytest.mark.parametrize(
    "words", [["--help"], ["doctor", "--help"], ["bench", "world", "--help"], ["policies"]]
)
def test_the_command_needs_no_extra(words: list[str]) -> None:
    """Whoever installs Pliant for simulations, or for MPI alone, has the command with all that it can do then."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS})); sys.argv[1:] = {words}; "
        "from pliant.__main__ import main; main()"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert told.returncode == 0, told.stderr[-2000:]
    assert told.stdout.strip()


@pytest.mark.parametrize(("words", "extras"), [(["demo"], "mpi"), (["demo", "--places"], "mpi,apgas")])
def test_the_demonstration_names_what_is_not_installed(words: list[str], extras: str) -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda name: None if name in ('numpy', 'zmq') else find(name); "
        f"sys.argv[1:] = {words}; from pliant.__main__ import main; main()"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert told.returncode == 2
    assert told.stderr.startswith("pliant: the demonstration needs numpy")
    assert f"pip install 'pliant[{extras}]'" in told.stderr


def test_words_for_policies_load_neither_mpi_nor_numerics() -> None:
    code = (
        "import sys; from pliant import *; Start, Policy; import pliant; "
        "print(sorted({'mpi4py', 'numpy', 'typer', 'rich', 'pliant.core.core'} & set(sys.modules)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"


def test_every_name_is_there_once_and_at_home() -> None:
    assert pliant.__all__ == sorted(set(pliant.__all__))
    for name in pliant.__all__:
        assert getattr(pliant, name) is not None
    assert {"__version__", "apgas", "mpi", *pliant.__all__} <= set(dir(pliant))
    assert (Start, Amdahl) == (view.Start, speedup.Amdahl)
    assert (PliantError, PolicyError) == (errors.PliantError, errors.PolicyError)
    assert pliant.mpi is mpi is sys.modules["pliant.mpi"]
    with pytest.raises(AttributeError, match="module 'pliant' has no attribute 'Sart'"):
        getattr(pliant, "Sart")  # noqa: B009 - a checker would object to the name itself


def test_checkers_see_the_names_that_there_are_at_run_time() -> None:
    seen = imported((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    assert sorted(name for _, name in seen) == sorted(["apgas", "mpi", "testing", *pliant.__all__])
    for module, name in seen:
        if module != "pliant":
            assert getattr(pliant, name) is getattr(sys.modules[module], name)


def test_whatever_policies_may_decide_and_must_name_is_exported() -> None:
    decisions = {kind.__name__ for kind in view.Decision.__args__}
    assert decisions < set(pliant.__all__)


def test_pliant_itself_imports_none_of_it() -> None:
    """A ring that did would have all of them below it."""
    rooms = {path.name.removesuffix(".py") for path in SOURCE.iterdir()}
    for path in SOURCE.rglob("*.py"):
        names = {name for module, name in imported(path.read_text(encoding="utf-8")) if module == "pliant"}
        assert path == SOURCE / "__init__.py" or names <= rooms, path


def test_documents_import_what_is_exported() -> None:
    used = [each for path in PAGES for text in blocks(path) for each in imported(text)]
    ours = [(module, name) for module, name in used if module.partition(".")[0] == "pliant"]
    assert {name for _, name in ours} >= {"mpi", "ClusterView", "Start", "Resize"}
    offered = {"pliant": {"mpi", *pliant.__all__}, "pliant.apgas": {"glb", *apgas.__all__}}
    for module, name in ours:
        assert name in offered[module]


def test_the_policy_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = [text for text in blocks(ROOT / "README.md") if "def decide" in text]
    (tmp_path / "widest.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    options = ("lublin:300", "--nodes", "64", "--malleable", "50", "--policy", "widest.py", "--json")
    [row] = json.loads(command("simulate", *options))["rows"]
    assert (row["policy"], row["failed"]["mean"]) == ("widest", 0)
    assert row["expands"]["mean"] > 0


def exported() -> Iterator[tuple[str, object]]:
    """All that users import, and the public methods and properties of its classes."""
    for module in (pliant, mpi, apgas, testing):
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, types.ModuleType) or not callable(thing):
                continue
            yield f"{module.__name__}.{name}", thing
            if isinstance(thing, type) and thing.__module__.startswith("pliant"):
                for method, of in vars(thing).items():
                    if not method.startswith("_") and isinstance(
                        of, types.FunctionType | property | classmethod | staticmethod
                    ):
                        yield f"{module.__name__}.{name}.{method}", getattr(thing, method)


def test_all_that_users_import_says_what_it_is() -> None:
    """A docstring of its own, or that of what it overrides."""
    made = re.compile(r"\w+\(.*\)$")  # what Python writes for a named tuple without one
    texts = {name: inspect.getdoc(thing) or "" for name, thing in exported()}
    assert len(texts) > 200
    assert [name for name, text in texts.items() if not text or made.match(text)] == []
