"""Command lines of Python. Without I/O."""

from __future__ import annotations

from typing import NamedTuple


class PythonProgram(NamedTuple):
    """A command line of Python: the interpreter's ``options``; ``way`` is "c", "m" or empty; ``name`` is the code, the
    module, or the path of the script; the program's ``arguments``."""

    options: list[str]
    way: str
    name: str
    arguments: list[str]

    @classmethod
    def read(cls, words: list[str]) -> PythonProgram | None:
        """From the words behind the interpreter; None where they name no program."""
        rest, options = list(words), list[str]()
        while rest and rest[0].startswith("-") and rest[0] != "-":
            word = rest.pop(0)
            if word.startswith("--"):  # --check-hash-based-pycs has a value
                options += [word, *rest[:1]]
                del rest[:1]
                continue
            letter = next((each for each in word if each in "cmWX"), "")
            before, _, value = word.partition(letter) if letter else (word, "", "")
            if letter and not value:
                value = rest.pop(0) if rest else ""
            if letter in ("c", "m"):
                return cls(options + [before] * (before != "-"), letter, value, rest)
            options.append(f"{before}{letter}{value}")
        return cls(options, "", rest[0], rest[1:]) if rest and rest[0] not in ("", "-") else None


def reads_its_script(words: list[str]) -> bool:
    """Whether Python with these words takes its script from standard input: they name no program, and ask for neither
    help nor version."""
    if PythonProgram.read(words) is not None:
        return False
    return not any(word.startswith("--") or {*"Vh?"} & {*word} for word in words)
