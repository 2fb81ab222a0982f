"""CPython's tests of executors, with a PlaceExecutor in the place of its own. They are those of the interpreter that
runs this; ``futures`` starts it.

Adapted are the types of the executor and of a remote traceback, the base class (places are threads and processes that
outlive a test), and programs that a test starts: their text runs as the main function of a program of places.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import unittest
from concurrent.futures import process
from types import ModuleType
from typing import Any

from pliant.apgas import PlaceExecutor, run
from pliant.apgas.errors import RemoteTraceback

PACKAGE = "test.test_concurrent_futures"
WHOLE = {
    "test_as_completed": ["AsCompletedTests"],
    "executor": ["ExecutorTest"],
    "test_init": ["InitializerMixin", "FailingInitializerMixin"],
    "test_shutdown": ["ExecutorShutdownTest"],
    "test_wait": ["WaitTests"],
}
"""Classes of tests that hold for every executor, by module."""
SINGLE = {"test_process_pool": {"ProcessPoolExecutorTest": ["test_map_chunksize", "test_traceback"]}}
"""Tests of the executor over processes that hold for others. None of that over threads does: its calls append to
objects of the test."""
PROGRAM = """
from functools import partial
from pliant.apgas import PlaceExecutor, run
def main():
    names = {{"PlaceExecutor": PlaceExecutor, "OthersExecutor": partial(PlaceExecutor, use_place_0=False)}}
    exec({code!r}, {{"__name__": "__main__", **names}})
run(main)
"""


class OthersExecutor(PlaceExecutor):
    """With place 0 left out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, use_place_0=False, **kwargs)


def suite(executor: type[PlaceExecutor]) -> dict[str, unittest.TestCase]:
    """The adapted tests by name; ImportError where the interpreter has none."""
    found: dict[str, unittest.TestCase] = {}
    for name, classes in WHOLE.items():
        module = importlib.import_module(f"{PACKAGE}.{name}")
        for each in classes:
            kind = _adapted(getattr(module, each), module, executor)
            found |= _tests(kind, each, unittest.TestLoader().getTestCaseNames(kind))
    for name, chosen in SINGLE.items():
        module = importlib.import_module(f"{PACKAGE}.{name}")
        for each, tests in chosen.items():
            found |= _tests(_adapted(getattr(module, each), module, executor), each, tests)
    return found


def _tests(kind: type[unittest.TestCase], title: str, names: Any) -> dict[str, unittest.TestCase]:
    return {f"{title}.{name}": kind(name) for name in names}


def _adapted(mixin: type, module: ModuleType, executor: type[PlaceExecutor]) -> type[unittest.TestCase]:
    util = importlib.import_module(f"{PACKAGE}.util")
    if hasattr(module, "assert_python_ok"):
        _adapt_programs(module)
    bases = (mixin,) if issubclass(mixin, util.ExecutorMixin) else (mixin, util.ExecutorMixin)
    own = tuple(base for base in bases if not issubclass(base, unittest.TestCase))
    made: type[unittest.TestCase] = type(
        f"Place{mixin.__name__}", (*(own or bases), *_base(bases)), {"executor_type": executor}
    )
    return made


def _base(bases: tuple[type, ...]) -> tuple[type, ...]:
    return () if any(issubclass(base, unittest.TestCase) for base in bases) else (unittest.TestCase,)


def _adapt_programs(module: Any) -> None:
    ran = importlib.import_module("test.support.script_helper").assert_python_ok

    def as_program(option: str, code: str) -> Any:
        for name in ("PlaceExecutor", "OthersExecutor"):
            code = code.replace(f"from concurrent.futures import {name}", "pass")
        return ran(
            option,
            PROGRAM.format(code=code),
            __isolated=False,
            PYTHONPATH=os.pathsep.join(filter(None, sys.path)),
        )

    module.assert_python_ok = as_program


def main() -> None:
    """Run the tests after the first ``sys.argv[2]``, and print a line for each."""
    vars(process)["_RemoteTraceback"] = RemoteTraceback
    vars(importlib.import_module("test.support"))["verbose"] = False
    executor = OthersExecutor if sys.argv[1] == "others" else PlaceExecutor
    tests = suite(executor)
    for name, test in itertools.islice(tests.items(), int(sys.argv[2]), None):
        _say(f"begun {name}")
        result = unittest.TestResult()
        test.run(result)
        came = "skipped" if result.skipped else "passed" if result.wasSuccessful() else "failed"
        for _, text in [*result.errors, *result.failures]:
            sys.stderr.write(f"== {name}\n{text}\n")
        _say(f"{came} {name}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(main)
