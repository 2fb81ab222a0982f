"""``pliant policies``: which there are; and a user's own, from a Python file."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.table import Table

from pliant.model.errors import PolicyError
from pliant.policy import registry
from pliant.policy.order import HALF_LIFE_S, ORDERS
from pliant.policy.view import ClusterView, Decision, Policy, Promise, Reason, Remember, Wake, rebalances
from pliant.policy.view import half_life_s as asked_half_life_s


def register(app: typer.Typer) -> None:
    """Add ``policies`` to the command."""
    app.command("policies")(policies)


def policies(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False
) -> None:
    """List the policies and the queue orders, a line each."""
    known = [_described(name, kind) for name, kind in registry.POLICIES.items()]
    if as_json:
        typer.echo(json.dumps({"policies": known, "orders": ORDERS, "start_rules": registry.START_RULES}))
        return
    table = Table(title="Policies: --policy NAME, or FILE.py[:CLASS] for your own", title_justify="left")
    for heading in ("policy", "what it does", "options"):
        table.add_column(heading)
    for entry in known:
        options = ", ".join(f"{key} = {value}" for key, value in entry["options"].items())
        table.add_row(entry["name"], entry["summary"], options)
    orders = Table(title="Queue orders, with every policy: --order NAME", title_justify="left")
    orders.add_column("order")
    orders.add_column("which goes first")
    for name, text in ORDERS.items():
        orders.add_row(name, text)
    console = Console()
    console.print(table)
    console.print(orders)


def _described(name: str, kind: Callable[..., Policy]) -> dict[str, Any]:
    """``name``, the first line of its description, and its options with their defaults."""
    text = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split()).rstrip(".")
    options = {
        parameter.name: parameter.default
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is not parameter.empty
    }
    return {"name": name, "summary": text, "options": options}


def choose(
    name: str,
    start: str | None = None,
    *,
    order: str = "submission",
    weights: Mapping[str, float] | None = None,
    half_life_s: float = HALF_LIFE_S,
) -> Policy:
    """The policy ``name`` of the registry, or the class in the file that ``name`` is the path of.

    Raises PolicyError.
    """
    if ".py" not in name:
        return registry.make(name, start, order=order, weights=weights, half_life_s=half_life_s)
    kind = load_class(name)
    if start is not None and not registry.has_start_rule(kind):
        raise PolicyError(f"{name}: class {kind.__name__} takes no start rule (an option start=...)")

    def made(start: str | None = None) -> Policy:
        try:
            policy = kind() if start is None else kind(start=start)
            return Checked(policy, Path(name.partition(".py")[0] + ".py"))
        except (Exception, SystemExit) as error:
            raise PolicyError(f"{name}: class {kind.__name__}: {type(error).__name__}: {error}") from error

    return registry.build(made, name, start, order=order, weights=weights, half_life_s=half_life_s)


def weights_of(texts: Iterable[str]) -> dict[str, float]:
    """Users' weights from texts ``USER=WEIGHT``; PolicyError."""
    return dict(_weight(text) for text in texts)


def _weight(text: str) -> tuple[str, float]:
    user, equals, number = text.rpartition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = 0.0
    if not (equals and user and 0 < weight < float("inf")):
        raise PolicyError(f"weight {text!r}: write USER=WEIGHT with a weight above 0")
    return user, weight


def load_class(text: str) -> Callable[..., Policy]:
    """The class at ``FILE.py[:CLASS]``; without CLASS the file's only one with ``decide``."""
    file, colon, wanted = text.partition(".py:")
    path = Path(file + ".py" if colon else file)
    module = _load(path)
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    candidates = [name for name, kind in found.items() if _is_policy(kind)]
    if not wanted:
        if len(candidates) == 1:
            return found[candidates[0]]
        why = f"has several policies: name one as {path}:{candidates[0]}" if candidates else "has no policy"
        raise PolicyError(f"{path}: {why} (a class with name and decide)")
    if wanted not in found:
        raise PolicyError(f"{path}: there is no class {wanted!r}{registry.nearest(wanted, found)}")
    if not _is_policy(found[wanted]):
        raise PolicyError(f"{path}: class {wanted} is no policy: it has no decide(view)")
    return found[wanted]


def _is_policy(kind: type) -> bool:
    return callable(getattr(kind, "decide", None))  # its name may be known only to its instances


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise PolicyError(f"{path}: there is no such file")
    name = f"pliant_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PolicyError(f"{path}: is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and the like look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        line = _line_of(error, path)
        raise PolicyError(f"{path}{line}: {type(error).__name__}: {error}") from error
    return module


def _line_of(error: BaseException, file: Path) -> str:
    """Where in the user's ``file`` it happened, as in ``, line 3``; nothing if it was not there."""
    if isinstance(error, SyntaxError) and error.lineno and Path(error.filename or "").name == file.name:
        return f", line {error.lineno}"
    lines = [at.lineno for at in extract_tb(error.__traceback__) if Path(at.filename).name == file.name]
    return f", line {lines[-1]}" if lines else ""


class Checked:
    """A user's policy: whatever it raises or answers amiss becomes a PolicyError that says when and where."""

    def __init__(self, policy: Policy, file: Path) -> None:
        self._file = file
        self.name = str(policy.name)
        self.rebalances = rebalances(policy)
        self.half_life_s = asked_half_life_s(policy)
        self._policy = policy

    def decide(self, view: ClusterView) -> list[Decision]:
        try:
            answer = self._policy.decide(view)
            decisions: list[Any] | None = list(answer) if isinstance(answer, Iterable) else None
        except (Exception, SystemExit) as error:
            where = _line_of(error, self._file).removeprefix(", ")
            where = f" ({self._file.name}, {where})" if where else ""
            raise self._wrong(view, f"raised {type(error).__name__}: {error}{where}") from error
        if decisions is None:
            raise self._wrong(view, f"decided {answer!r}; decide(view) must return a list of decisions")
        for decision in decisions:
            if not isinstance(decision, Decision):
                known = ", ".join(each.__name__ for each in get_args(Decision))
                raise self._wrong(view, f"decided {decision!r}, which is none of {known}")
            if isinstance(decision, Wake):
                sound = isinstance(decision.at, int | float)
            elif isinstance(decision, Remember):
                sound = isinstance(decision.memory, dict)
            elif isinstance(decision, Promise):
                sound = isinstance(decision.job, int) and isinstance(decision.at, int | float)
            else:
                numbers = isinstance(decision.job, int) and isinstance(decision.size, int)
                sound = numbers and isinstance(decision.reason, Reason)
            if not sound:
                raise self._wrong(
                    view, f"decided {decision!r}, whose fields are not of the types they should be"
                )
        return decisions

    def _wrong(self, view: ClusterView, what: str) -> PolicyError:
        pending = sum(1 for _ in view.queue)
        return PolicyError(
            f"policy {self.name!r} at {view.now:.3f} s {what} "
            f"(free {view.free} of {view.total}, pending {pending}, running {len(view.running)})"
        )
