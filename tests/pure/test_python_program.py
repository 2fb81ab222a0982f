"""How the command line of a program is read, to run it from its start in another process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.model.python_program import PythonProgram


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("program.py", PythonProgram([], "", "program.py", [])),
        ("program.py -c 3", PythonProgram([], "", "program.py", ["-c", "3"])),
        ("-u program.py --size 3", PythonProgram(["-u"], "", "program.py", ["--size", "3"])),
        ("-m package.module -x", PythonProgram([], "m", "package.module", ["-x"])),
        ("-mpackage -x", PythonProgram([], "m", "package", ["-x"])),
        ("-uBm package", PythonProgram(["-uB"], "m", "package", [])),
        ("-c print() a", PythonProgram([], "c", "print()", ["a"])),
        ("-W error program.py", PythonProgram(["-Werror"], "", "program.py", [])),
        ("-Wmodule -Xdev -m package", PythonProgram(["-Wmodule", "-Xdev"], "m", "package", [])),
        ("-uX importtime -c pass", PythonProgram(["-uXimporttime"], "c", "pass", [])),
        (
            "--check-hash-based-pycs never program.py",
            PythonProgram(["--check-hash-based-pycs", "never"], "", "program.py", []),
        ),
        ("", None),
        ("-", None),
        ("-u -", None),
        ("-i", None),
    ],
)
def test_a_command_line_names_a_program(line: str, program: PythonProgram | None) -> None:
    assert PythonProgram.read(line.split()) == program


@given(
    st.lists(st.sampled_from(["-u", "-B", "-I", "-Werror", "-Xdev", "-OO"])),
    st.sampled_from(["c", "m", ""]),
    st.text("-amcWX.", min_size=1),
    st.lists(st.text("-amcWX.", min_size=1)),
)
def test_options_end_where_the_program_begins(
    options: list[str], way: str, name: str, arguments: list[str]
) -> None:
    if not way:
        name = f"./{name}"
    words = [*options, *filter(None, [way and f"-{way}"]), name, *arguments]
    assert PythonProgram.read(words) == PythonProgram(options, way, name, arguments)
