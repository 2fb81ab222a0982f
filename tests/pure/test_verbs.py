"""The commands' table: help reads it alone, each call loads its own command, and it says what that says of itself."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from commands import command
from typer.testing import CliRunner

import pliant
from pliant.cli import made
from pliant.cli.verbs import PANELS, Elsewhere, Family, Verb
from pliant_lab.commands import BENCH, REPRODUCE

LABORATORY = {"bench": BENCH, "reproduce": REPRODUCE}

LIGHT = {
    "pliant.cli", "pliant.cli.verbs", "pliant.cli.operate", "pliant.daemon", "pliant.daemon.control",
    "pliant.daemon.directory", "pliant.daemon.interrupted", "pliant.launch", "pliant.launch.descriptors",
    "pliant.model", "pliant.model.deadlines", "pliant.model.errors", "pliant.model.kinds", "pliant.model.limits", "pliant.model.need", "pliant.model.words",
    "pliant.report", "pliant.report.words", "pliant.terminal", "pliant.terminal.glyphs",
}  # fmt: skip
"""All that pliant queue and pliant --help may load of Pliant: nothing that schedules, simulates or starts."""


def leaves() -> list[tuple[str, Verb]]:
    return list(_leaves())


def _leaves() -> Iterator[tuple[str, Verb]]:
    for panel in PANELS:
        for name, verb in panel.verbs.items():
            match verb:
                case Verb():
                    yield name, verb
                case Family():
                    yield from ((f"{name} {second}", each) for second, each in verb.verbs.items())
                case Elsewhere():
                    family = LABORATORY[name]
                    yield from ((f"{name} {second}", each) for second, each in family.verbs.items())


@pytest.mark.parametrize(("words", "verb"), leaves(), ids=[words for words, _ in leaves()])
def test_a_commands_line_is_the_first_sentence_of_its_own_help(words: str, verb: Verb) -> None:
    module, _, function = verb.target.partition(":")
    text = inspect.getdoc(getattr(import_module(module), function)) or ""
    assert " ".join(text.split()).startswith(verb.line)
    assert verb.line.endswith(".")
    _, *further = text.split("\n\n")
    assert not any("\n" in each for each in further)  # help flows the first paragraph alone
    for option in ("-h", "--help"):
        shown = " ".join(command(*words.split(), option).split())
        assert f"pliant {words}" in shown
        assert " ".join(verb.line.split()[:6]) in shown


@pytest.mark.parametrize(("words", "verb"), leaves(), ids=[words for words, _ in leaves()])
def test_an_option_states_its_default_as_all_others_do(words: str, verb: Verb) -> None:
    module, _, function = verb.target.partition(":")
    hints = inspect.get_annotations(getattr(import_module(module), function), eval_str=True)
    helps = [each.help for hint in hints.values() for each in getattr(hint, "__metadata__", ()) if each.help]
    assert helps
    assert [each for each in helps if re.search(r"[Bb]y default|; else ", each)] == []


@pytest.mark.parametrize("arguments", [["--help"], ["queue"], ["queue", "--json"], ["bench"], ["--version"]])
def test_a_command_loads_what_it_needs_alone(arguments: list[str], tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pliant.__main__ import main\n"
        "try:\n    main()\n"
        "finally:\n    print(*(each for each in sys.modules if each.startswith('pliant.')), file=sys.stderr)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    loaded = set(ended.stderr.splitlines()[-1].split())
    assert "pliant.cli.verbs" in loaded
    assert loaded - {"pliant.__main__"} <= LIGHT
    assert ended.returncode == (2 if arguments == ["bench"] else 0), ended.stderr


def test_the_version_is_the_packages() -> None:
    assert command("--version") == f"pliant {pliant.__version__}\n"


def test_a_misspelt_command_is_answered_with_the_one_that_is_meant() -> None:
    result = CliRunner().invoke(made(), ["quue"])
    assert result.exit_code == 2
    assert "queue" in result.output


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pliant q", {"queue"}),
        ("pliant bench re", {"redistribute", "resize"}),
        ("pliant queue --j", {"--json"}),
    ],
)
def test_a_shell_completes_commands_and_their_options(typed: str, offered: set[str]) -> None:
    result = CliRunner().invoke(
        made(),
        prog_name="pliant",
        env={
            "_PLIANT_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - 1),
        },
    )
    assert offered == set(result.stdout.split())


@pytest.mark.parametrize("name", LABORATORY)
def test_a_command_of_the_laboratory_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    result = CliRunner().invoke(made(), [name, "--help"])
    assert str(result.exception) == (
        f"pliant {name}: this command comes with pliant-lab, which is not installed; "
        "from a clone of Pliant install it with: pip install /path/to/pliant/lab"
    )


def test_the_laboratorys_commands_are_its_entry_points() -> None:
    found = {each.name: each.load() for each in entry_points(group="pliant.commands")}
    assert found == LABORATORY
    elsewhere = {n: v.line for panel in PANELS for n, v in panel.verbs.items() if isinstance(v, Elsewhere)}
    assert elsewhere == {name: family.line for name, family in LABORATORY.items()}
