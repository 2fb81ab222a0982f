"""``pliant policies``: which there are."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from pliant.cli.outputs import AsJson
from pliant.policy import registry
from pliant.policy.order import ORDERS
from pliant.policy.view import Policy


def policies(*, as_json: AsJson = False) -> None:
    """List the policies and the queue orders."""
    known = [_described(name, kind) for name, kind in registry.POLICIES.items()]
    if as_json:
        typer.echo(json.dumps({"policies": known, "orders": ORDERS, "start_rules": registry.START_RULES}))
        return
    table = Table(
        title="Policies: --policy NAME[:OPTION=VALUE], FILE.py[:CLASS] for your own, or exec:COMMAND for one in "
        "another process, in any language",
        title_justify="left",
    )
    for heading in ("policy", "what it does", "options"):
        table.add_column(heading)
    for entry in known:
        options = ", ".join(f"{key} = {value}" for key, value in entry["options"].items())
        table.add_row(entry["name"], entry["summary"], options)
    orders = Table(title="Queue orders, with every policy but entitled: --order NAME", title_justify="left")
    orders.add_column("order")
    orders.add_column("which goes first")
    for name, text in ORDERS.items():
        orders.add_row(name, text)
    console = Console()
    console.print(table)
    console.print(orders)


def _described(name: str, kind: Callable[..., Policy]) -> dict[str, Any]:
    """``name``, the first line of its description, and its options with their defaults."""
    text = " ".join(_docstring(kind).split("\n\n")[0].split()).rstrip(".")
    options = {
        parameter.name: parameter.default
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is not parameter.empty
    }
    return {"name": name, "summary": text, "options": options}


def _docstring(kind: Callable[..., Policy]) -> str:
    """A compiled class has lost its own: that of the source, which lies beside."""
    module = sys.modules[kind.__module__].__file__
    if (found := inspect.getdoc(kind)) or module is None:
        return found or ""
    path = Path(module)
    source = ast.parse(path.with_name(f"{path.name.partition('.')[0]}.py").read_text(encoding="utf-8"))
    classes = (each for each in source.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
    return next((ast.get_docstring(each) or "" for each in classes), "")
