"""Being malleable may cost a program a few lines, no more."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from pliant.apps import heat, heat_rigid

MOST_MORE = 10


def code_lines(module_file: str | None, function: str) -> int:
    """Lines of a function that hold code: no blank lines, comments or docstring."""
    source = Path(str(module_file)).read_text("utf-8")
    tree = ast.parse(source)
    (found,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
    body = found.body[1:] if ast.get_docstring(found) is not None else found.body
    first = min(node.lineno for node in body)
    numbers = range(first, (found.end_lineno or first) + 1)
    lines = source.splitlines()
    return sum(1 for n in numbers if lines[n - 1].strip() and not lines[n - 1].strip().startswith("#"))


def test_the_malleable_solver_is_hardly_longer() -> None:
    assert code_lines(heat.__file__, "solve") <= code_lines(heat_rigid.__file__, "solve") + MOST_MORE


def test_serial_needs_no_mpi() -> None:
    program = (
        "import sys; from pliant.apps import heat; sys.argv[1:] = ['--serial', '--rows', '9']; heat.main(); "
    )
    program += "print(sorted(m for m in sys.modules if m.startswith(('mpi4py', 'pliant.mpi'))))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    digest, modules = done.stdout.split()
    assert digest == heat.solve_serial(9, 256, 400)
    assert modules == "[]"


def test_one_jacobi_step() -> None:
    field = heat.initial((slice(0, 5), slice(0, 6)))
    before = field.copy()
    heat.relax(field)
    assert field[0].tolist() == before[0].tolist()
    assert field[2, 3] == (before[1, 3] + before[3, 3] + before[2, 2] + before[2, 4]) * 0.25


def test_parts_start_as_the_whole() -> None:
    whole = heat.initial((slice(0, 20), slice(0, 7)))
    part = heat.initial((slice(4, 9), slice(0, 7)))
    assert part.tolist() == whole[4:9].tolist()
