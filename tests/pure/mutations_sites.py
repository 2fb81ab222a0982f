"""The changes that can be made: one text for another, a condition negated, a statement deleted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

RINGS = ("core", "live", "protocol")
SKIPPED: dict[str, str] = {
    "core/usage.py": "what a fair policy goes by: a wrong figure gives another order, none that is unsound",
    "core/ended.py": "what a policy is told of ends",
    "live/tree/recording.py": "replays recordings of launch trees; the world makes none",
    "live/played.py": "plays recordings again",
    "live/node/recording.py": "replays recordings of agents; the world makes none",
    "live/recording.py": "replays recordings of controllers; the world makes none",
    "live/tables.py": "makes docs/protocol.md",
    "protocol/starting.py": "asked when a job is submitted, before there is a controller",
    # Functions, by file and name.
    "core/core.py _wrong": "the words of an error",
    "core/core.py following": "which half-life a fair policy asks for",
    "core/core.py handle": "for the simulator: a live cluster notes events one by one",
    "core/core.py unanswered": "for a controller that goes on with its jobs, which no shell does yet",
    "core/core.py of_resize": "as unanswered",
    "core/state.py snapshot": "for comparisons in tests",
    **{
        f"core/state.py {name}": "what a policy sees beside nodes and jobs"
        for name in (
            "backlog",
            "usage",
            "asked",
            "wish",
            "meet",
            "in_vain",
            "_index",
            "_waits",
            "_waits_no_more",
        )
    },
    "core/job.py snapshot": "for comparisons in tests",
    "core/job.py remaining_s": "an estimate for policies",
    "core/job.py done": "an estimate for policies",
    "live/job/groups.py exception_in": "the words of a failure",
    "live/job/groups.py last_line": "the words of a failure",
    "live/job/groups.py complain": "the words of a failure",
    "live/job/groups.py why": "the words of a failure",
    "live/job/life.py _story": "the words of a failure",
    "live/job/life.py _tell_no_session": "a hint in a job's log",
    "live/job/life.py _complained": "the words of a failure",
}
"""What is left out, and why: what no world runs, and what only chooses words or feeds the judgement of policies."""


class Mutation(NamedTuple):
    """``before`` becomes ``after`` at ``offset`` of a file of the package, or, where that is None, where it stands once."""

    name: str
    file: str
    before: str
    after: str
    offset: int | None = None

    @property
    def place(self) -> str:
        """File and function, whatever line that is on."""
        return self.name.rpartition(":")[0] or self.name

    @property
    def key(self) -> str:
        """What is changed where."""
        return f"{self.place}: {self.shown}"

    @property
    def shown(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        text = f"delete {before}" if after == "pass" else f"{before} -> {after}"
        return text.replace("|", "¦")[:120]

    def apply(self, source: Path) -> str:
        """The text of the file with the change; ValueError if it cannot be made."""
        text = (source / self.file).read_text()
        count = text.count(self.before)
        if self.offset is None and count != 1:
            raise ValueError(
                f"{self.name}: in {self.file} this is there {count} times, not once: {self.before!r}"
            )
        at = text.index(self.before) if self.offset is None else self.offset
        if not text.startswith(self.before, at):
            raise ValueError(f"{self.name}: {self.file} has been changed meanwhile")
        return text[:at] + self.after + text[at + len(self.before) :]


def drawn(source: Path, seed: int, count: int) -> list[Mutation]:
    """So many of all changes, by seed: no two alike."""
    found = [
        each for ring in RINGS for path in sorted((source / ring).rglob("*.py")) for each in _of(source, path)
    ]
    return Random(seed).sample(found, min(count, len(found)))


def _of(source: Path, path: Path) -> Iterator[Mutation]:
    """All changes of one file."""
    file = str(path.relative_to(source))
    if file in SKIPPED:
        return
    text = path.read_text()
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def mutation(node: ast.stmt | ast.expr, name: str, after: str) -> Mutation:
        at = [
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
        ]
        begin, end = (len(text.encode()[:byte].decode()) for byte in at)
        before = text[begin:end]
        return Mutation(f"{file} {name}:{node.lineno}", file, before, after.format(before), begin)

    for function, name in _functions(ast.parse(text)):
        if f"{file} {name.rpartition('.')[2]}" in SKIPPED:
            continue
        for node in _inside(function):
            for condition in _conditions(node):
                yield mutation(condition, name, "(not ({}))")
            if isinstance(node, ast.stmt) and _may_go(node):
                yield mutation(node, name, "pass")


def _functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[ast.FunctionDef, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield node, inside + node.name


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from ast.walk(statement)


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            return [node.test]
        case ast.BoolOp():
            return node.values
        case ast.comprehension():
            return node.ifs
        case ast.match_case() if node.guard is not None:
            return [node.guard]
    return []


def _may_go(node: ast.stmt) -> bool:
    """A statement that does something by itself. Not compound ones, docstrings, imports or ``pass``; nor what only gives a
    local name its first value, where all that follows is a NameError; nor a ValueError, which says that the core itself is
    wrong."""
    match node:
        case ast.Expr():
            return not isinstance(node.value, ast.Constant)
        case ast.Assign():
            return any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        case ast.Raise():
            return not (isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "ValueError")
        case ast.AugAssign() | ast.Delete() | ast.Return() | ast.Break() | ast.Continue():
            return True
    return False
