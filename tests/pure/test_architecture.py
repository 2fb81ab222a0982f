"""ARCHITECTURE.md and docs/decisions/ speak of what is there: rings, paths, and names in drawings. Decisions are short."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/pliant"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
MOST_WORDS, MOST_OF_A_PARAGRAPH = 400, 80
"""Words of a decision's page, without its code blocks and tables."""
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWINGS: list[str] = BLOCK.findall(PAGE)
CLASSES: dict[str, tuple[set[str], set[str]]] = {}
"""What the classes of a name define, and what they are derived from."""
ATTRIBUTES: dict[str, set[str]] = {}
"""What the classes of a name have beside methods."""
FUNCTIONS: set[str] = set()
for path in SOURCE.rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            FUNCTIONS.add(node.name)
        elif isinstance(node, ast.ClassDef):
            own, bases = CLASSES.setdefault(node.name, (set(), set()))
            own |= {
                each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            bases |= {each.id for each in node.bases if isinstance(each, ast.Name)}
            stored = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))
            declared = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
            ATTRIBUTES.setdefault(node.name, set()).update(stored, declared)


def test_the_rings_are_those_that_the_contracts_hold() -> None:
    """A line each, in the same order; and every room is in one of them."""
    drawn = [set(re.findall(r"(?:^|  )(\w+)(?:/|\.py) ", line)) for line in DRAWINGS[1].splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rings = [{room.strip().removeprefix("pliant.") for room in layer.split("|")} for layer in layers]
    assert [ring for ring in drawn if ring] == rings
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    rooms |= {path.stem for path in SOURCE.glob("[!_]*.py")}
    assert rooms == set.union(*rings)


def test_the_pure_rings_are_those_that_the_contracts_hold() -> None:
    pure = re.findall(r"^(\w+)/ ", DRAWINGS[1].partition("----")[2], re.MULTILINE)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [contract] = [each for each in contracts if each["name"].startswith("the pure rings")]
    assert [f"pliant.{room}" for room in pure] == contract["source_modules"]


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *DECISIONS], ids=lambda page: page.name)
def test_every_path_exists(page: Path) -> None:
    """Files wherever they are named, and what links lead to; in decisions also folders in backticks."""
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"\b(?:\w+/)+\w+\.\w+", text)
    paths += re.findall(r"`((?:\w+/)+)`", text)
    for path in paths:
        assert (SOURCE / path).exists() or (ROOT / path).exists(), path
    for target in re.findall(r"\]\((?!https?:)([\w./-]+)", text):
        assert (page.parent / target).exists(), target


def test_the_whole_is_short() -> None:
    assert len(PAGE.split()) <= 3000


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *DECISIONS], ids=lambda page: page.name)
def test_pages_are_short(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    assert page not in DECISIONS or len(prose.split()) <= MOST_WORDS
    for paragraph in re.split(r"\n(?:\s*\n|(?=\s*(?:[-*]|\d+\.) ))", prose):
        assert len(paragraph.split()) <= MOST_OF_A_PARAGRAPH, paragraph


def test_every_decision_is_in_the_table() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(
        r"^\| \[(.+)\]\((.+)\) \|", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {name for _, name in listed} == {page.name for page in DECISIONS} - {"README.md"}
    for title, name in listed:
        assert (folder / name).read_text(encoding="utf-8").startswith(f"# {title}\n"), name


def test_every_name_in_the_drawings_exists() -> None:
    spawning = (ROOT / "docs/decisions/spawning.md").read_text(encoding="utf-8")
    for drawing in (*DRAWINGS[2:], *BLOCK.findall(spawning)):
        assert max(map(len, drawing.splitlines())) <= 100
        for name in re.findall(r"\b[A-Z][a-z]\w*", drawing):
            assert name in CLASSES, name
        for kind, method in re.findall(r"\b(?:([A-Z]\w*)\.)?(\w+)\(\)", drawing):
            assert method in (methods(kind) if kind else FUNCTIONS), f"{kind}.{method}"
        for file, name in re.findall(r"((?:\w+/)+\w+\.py) +([A-Z]\w+|\w+(?=\(\)))", drawing):
            text = (SOURCE / file).read_text(encoding="utf-8")
            assert re.search(rf"(class|def) {name}\b", text), f"{file}: {name}"


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *DECISIONS], ids=lambda page: page.name)
def test_every_attribute_that_is_named_exists(page: Path) -> None:
    """``Class.attribute`` in backticks, of a class of the product."""
    for kind, name in re.findall(r"`([A-Z]\w*)\.([a-z]\w*)(?:\(\w*\))?`", page.read_text(encoding="utf-8")):
        assert kind in CLASSES, kind
        assert name in methods(kind) | ATTRIBUTES[kind], f"{kind}.{name}"


def methods(kind: str) -> set[str]:
    own, bases = CLASSES[kind]
    return own.union(*(methods(base) for base in bases if base in CLASSES))


def test_the_reading_takes_an_hour() -> None:
    """And what it names is there."""
    table = PAGE.partition("| minutes |")[2].partition("\n\n")[0]
    assert sum(map(int, re.findall(r"^\| (\d+) \|", table, re.MULTILINE))) == 60
    for name in re.findall(r"`(\w+)`", table):
        assert name in FUNCTIONS, name


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even to check types."""
    graph = nx.DiGraph()
    modules = dict(each for root in (SOURCE, ROOT / "lab/src/pliant_lab") for each in modules_of(root))
    for name, path in modules.items():
        graph.add_edges_from((name, other) for other in imported(path, modules) if other != name)
    circles = [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1]
    assert not circles


def modules_of(root: Path) -> Iterator[tuple[str, Path]]:
    for path in root.rglob("*.py"):
        yield (
            ".".join((root.name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__"),
            path,
        )


def imported(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The modules that one imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
