"""The commands of ``pliant``: where each is and a line about it, so that help loads none and a call loads its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from pliant.model.errors import PliantError


class Verb(NamedTuple):
    """A command. ``target`` names a module and the function in it; ``line`` is the first sentence of
    that function's docstring. A ``wrapper`` takes what follows its first argument as another command's options."""

    target: str
    line: str
    wrapper: bool = False

    def load(self, name: str) -> Any:
        """The command itself, with its options."""
        module, _, function = self.target.partition(":")
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = {"allow_interspersed_args": not self.wrapper}
        alone.command(name, context_settings=settings)(getattr(import_module(module), function))
        return typer.main.get_command(alone)


class Family(NamedTuple):
    """Commands that share their first word."""

    line: str
    verbs: Mapping[str, Verb]

    def app(self) -> typer.Typer:
        """The commands, listed by their lines alone."""
        app = typer.Typer(cls=loading(self.verbs), no_args_is_help=True, add_completion=False, help=self.line)
        for name, verb in self.verbs.items():
            app.command(name, help=verb.line, rich_help_panel="Commands")(_not_loaded)
        return app


class Elsewhere(NamedTuple):
    """Commands that share their first word, of another distribution: an entry point of ``pliant.commands`` with this
    word as its name is their ``Family``."""

    line: str
    distribution: str

    def load(self, name: str) -> Any:
        """The commands, if the distribution is installed. Raises ``PliantError`` otherwise."""
        from importlib.metadata import entry_points

        for found in entry_points(group="pliant.commands", name=name):
            return typer.main.get_command(found.load().app())
        raise PliantError(
            f"pliant {name}: this command comes with {self.distribution}, which is not installed; "
            "from a clone of Pliant install it with: pip install /path/to/pliant/lab"
        )


class HelpPanel(NamedTuple):
    """Commands that help shows together."""

    title: str
    verbs: Mapping[str, Verb | Family | Elsewhere]


LAB = "pliant-lab"
NODES = {
    "list": Verb(
        "pliant.cli.operate:listed",
        "List the nodes of a run, and those that were asked for and have not come.",
    ),
    "add": Verb("pliant.cli.operate:add", "Ask for more nodes."),
    "remove": Verb("pliant.cli.operate:remove", "Give nodes back."),
    "withdraw": Verb(
        "pliant.cli.operate:withdraw", "Do without nodes that were asked for and have not come."
    ),
}
PLAN = {
    "spawn": Verb("pliant.cli.plan_spawn:spawn", "Show which process starts which group, in which step."),
    "shrink": Verb(
        "pliant.cli.plan_shrink:shrink",
        "Show what becomes of each rank when a job gives back nodes or slots.",
    ),
    "data": Verb(
        "pliant.cli.plan_data:data",
        "Show what a redistribution moves: the rows that each rank sends to each other one.",
    ),
}
PANELS = (
    HelpPanel(
        "Run jobs",
        {
            "demo": Verb(
                "pliant.cli.demo:demo",
                "Run a batch twice on 8 virtual nodes: every job rigid, then every job malleable.",
            ),
            "run": Verb(
                "pliant.cli.run:run", "Run a batch of jobs, or one command, and show what became of it."
            ),
            "launch": Verb(
                "pliant.cli.launch:launch",
                "Run a program on many nodes, over a tree of agents.",
                wrapper=True,
            ),
        },
    ),
    HelpPanel(
        "Look and order, from another terminal",
        {
            "queue": Verb(
                "pliant.cli.operate:queue",
                "List the pending and running jobs of all runs that go on, or of one.",
            ),
            "resize": Verb("pliant.cli.operate:resize", "Order a running job to another size."),
            "migrate": Verb("pliant.cli.operate:migrate", "Order a running job to other nodes."),
            "nodes": Family("Add nodes to a run that goes on, or remove some.", NODES),
        },
    ),
    HelpPanel(
        "Study scheduling",
        {
            "simulate": Verb(
                "pliant.cli.simulate:simulate_file", "Simulate a trace, a batch or a generated workload."
            ),
            "policies": Verb("pliant.cli.policies:policies", "List the policies and the queue orders."),
            "calibrate": Verb("pliant.cli.calibrate:calibrate", "Fit the cost of resizes to recorded runs."),
            "plan": Family("Plan the resize of an MPI job: print, draw and predict it.", PLAN),
            "reproduce": Elsewhere("Run the papers' experiments again, with figures.", LAB),
        },
    ),
    HelpPanel(
        "This machine",
        {
            "doctor": Verb(
                "pliant.cli.doctor:doctor", "Check what this machine offers, and say what is missing."
            ),
            "bench": Elsewhere("Measure Pliant on this machine.", LAB),
        },
    ),
)


def add(app: typer.Typer, panel: HelpPanel) -> None:
    """Let the app list a panel's commands, each by its line alone."""
    for name, verb in panel.verbs.items():
        if isinstance(verb, Family):
            app.add_typer(verb.app(), name=name, rich_help_panel=panel.title)
        else:
            app.command(name, help=verb.line, rich_help_panel=panel.title)(_not_loaded)


def _not_loaded() -> None:
    """Never called: a command is loaded when it is resolved."""


def loading(verbs: Mapping[str, Verb | Family | Elsewhere]) -> type[TyperGroup]:
    """A group that loads each of these commands when it is called, or completed."""

    class Loading(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            verb = verbs.get(name or "")
            return name, verb.load(name) if name and isinstance(verb, (Verb, Elsewhere)) else command, rest

    return Loading
