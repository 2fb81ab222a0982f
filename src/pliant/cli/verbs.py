"""The commands of ``pliant``: where each is and a line about it, so that help loads none and a call loads its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Verb(NamedTuple):
    """A command. ``target`` names a module of this package and the function in it; ``line`` is the first sentence of
    that function's docstring. A ``wrapper`` takes what follows its first argument as another command's options."""

    target: str
    line: str
    wrapper: bool = False

    def load(self, name: str) -> Any:
        """The command itself, with its options."""
        module, _, function = self.target.partition(":")
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = {"allow_interspersed_args": not self.wrapper}
        alone.command(name, context_settings=settings)(
            getattr(import_module(f"pliant.cli.{module}"), function)
        )
        return typer.main.get_command(alone)


class Family(NamedTuple):
    """Commands that share their first word."""

    line: str
    verbs: Mapping[str, Verb]


class Panel(NamedTuple):
    """Commands that help shows together."""

    title: str
    verbs: Mapping[str, Verb | Family]


NODES = {
    "add": Verb("operate:add", "Ask for more nodes."),
    "remove": Verb("operate:remove", "Give nodes back."),
    "withdraw": Verb("operate:withdraw", "Do without nodes that were asked for and have not come."),
}
PLAN = {
    "spawn": Verb("plan_spawn:spawn", "Show which process starts which group, in which step."),
    "shrink": Verb(
        "plan_shrink:shrink", "Show what becomes of each rank when a job gives back nodes or slots."
    ),
    "data": Verb(
        "plan_data:data", "Show what a redistribution moves: the rows that each rank sends to each other one."
    ),
}
REPRODUCE = {
    "scheduling": Verb(
        "reproduce:scheduling",
        "Simulate Finnerty et al. 2024, Iserte et al. 2018, and all policies on real traces.",
    ),
    "apgas": Verb(
        "reproduce_apgas:apgas", "Run the task programs of Finnerty et al. 2024 with real processes."
    ),
    "dmr": Verb(
        "reproduce_dmr:dmr",
        "Run the experiments of Iserte et al. 2018 with real processes, and simulate their throughput.",
    ),
    "launch": Verb(
        "reproduce_launch:launch", "Launch an empty program over 1 to 128 nodes of a virtual cluster."
    ),
    "spawning": Verb(
        "reproduce_spawning:spawning",
        "Run the resizes of Martín-Álvarez et al. 2025 on 1 to 8 virtual nodes.",
    ),
}
BENCH = {
    "simulator": Verb(
        "bench:simulator", "Simulate: jobs per CPU second, with records and every check of the core."
    ),
    "batches": Verb("bench_live:batches", "Run batches of real MPI jobs, malleable and under rigid EASY."),
    "leaks": Verb("bench_live:leaks", "Count what many runs leave: processes, directories, shared memory."),
    "cycles": Verb(
        "bench_live:resize_cycles", "Grow and shrink one MPI job, and count what its processes keep."
    ),
    "launch": Verb(
        "bench_launch:launch", "Launch empty programs on a virtual cluster: pliant, hydra, ssh, pdsh, clush."
    ),
    "resize": Verb(
        "bench_resize:resize", "Resize MPI jobs, from each size to each other, in each way there is."
    ),
    "agreement": Verb(
        "bench_agreement:agreement", "Run the demonstration's batch, simulate it, and compare."
    ),
    "places": Verb("bench_places:places", "Balance work over places that come, go and die, by seeds."),
    "world": Verb("bench_world:world", "Run controller, agents and jobs under injected faults, by seeds."),
    "apgas": Verb(
        "bench_apgas:apgas", "Run task programs beside their bare kernels, over places and workers."
    ),
    "scaling": Verb(
        "bench_scaling:scaling", "Run each task program over 1 and 2 places and workers, and resize it."
    ),
    "redistribute": Verb("bench_redistribute:redistribute", "Redistribute an array by each method."),
}
PANELS = (
    Panel(
        "Run jobs",
        {
            "demo": Verb(
                "demo:demo",
                "Run a batch twice on 8 virtual nodes: every job rigid, then every job malleable.",
            ),
            "run": Verb("run:run", "Run a batch of jobs, or one command, and show what became of it."),
            "launch": Verb(
                "launch:launch", "Run a program on many nodes, over a tree of agents.", wrapper=True
            ),
        },
    ),
    Panel(
        "Look and order, from another terminal",
        {
            "queue": Verb(
                "operate:queue", "List the pending and running jobs of all runs that go on, or of one."
            ),
            "resize": Verb("operate:resize", "Order a running job to another size."),
            "migrate": Verb("operate:migrate", "Order a running job to other nodes."),
            "nodes": Family("Add nodes to a run that goes on, or remove some.", NODES),
        },
    ),
    Panel(
        "Study scheduling",
        {
            "simulate": Verb("simulate:simulate_file", "Simulate a trace, a batch or a generated workload."),
            "policies": Verb("policies:policies", "List the policies and the queue orders."),
            "calibrate": Verb("calibrate:calibrate", "Fit the cost of resizes to recorded runs."),
            "plan": Family("Plan the resize of an MPI job: print, draw and predict it.", PLAN),
            "reproduce": Family("Run the papers' experiments again, with figures.", REPRODUCE),
        },
    ),
    Panel(
        "This machine",
        {
            "doctor": Verb("doctor:doctor", "Check what this machine offers, and say what is missing."),
            "bench": Family("Measure Pliant on this machine.", BENCH),
        },
    ),
)


def add(app: typer.Typer, panel: Panel) -> None:
    """Let the app list a panel's commands, each by its line alone."""
    for name, verb in panel.verbs.items():
        if isinstance(verb, Verb):
            app.command(name, help=verb.line, rich_help_panel=panel.title)(_not_loaded)
        else:
            family = typer.Typer(cls=loading(verb.verbs), no_args_is_help=True, help=verb.line)
            add(family, Panel("Commands", verb.verbs))
            app.add_typer(family, name=name, rich_help_panel=panel.title)


def _not_loaded() -> None:
    """Never called: a command is loaded when it is resolved."""


def loading(verbs: Mapping[str, Verb | Family]) -> type[TyperGroup]:
    """A group that loads each of these commands when it is called, or completed."""

    class Loading(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            verb = verbs.get(name or "")
            return name, verb.load(name) if name and isinstance(verb, Verb) else command, rest

    return Loading
