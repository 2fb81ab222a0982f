"""Policies as users name them: one of the registry, a class of their own, in a Python file or at hand, or a command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, NamedTuple, Self, get_args

from pliant.files.external import PREFIX, amiss, external, is_external, words_of
from pliant.model.batch import ClusterSpec
from pliant.model.errors import PolicyError
from pliant.model.limits import as_number
from pliant.model.words import nearest
from pliant.policy import registry
from pliant.policy.booked import Calendar, keeps_none
from pliant.policy.order import HALF_LIFE_S, ordered
from pliant.policy.parameters import split
from pliant.policy.view import (
    Acquire,
    ClusterView,
    Decision,
    Policy,
    Promise,
    Reason,
    Remember,
    Return,
    Wake,
    Withdraw,
    provisions,
    rebalances,
)
from pliant.policy.view import half_life_s as asked_half_life_s


class PolicySpec(NamedTuple):
    """A policy as a user or a batch names it: of the registry, the class in a file, with parameters if any
    (``marginal:payback=5``), or ``exec:`` and a command, and the order of its queue. What is empty or None is not
    said. ``own`` is a class or a policy that a program has at hand, called ``name`` (``own_policy``)."""

    name: str = ""
    start: str | None = None
    order: str | None = None
    weights: Mapping[str, float] = {}
    half_life_s: float = HALF_LIFE_S
    own: object = None

    @classmethod
    def of(cls, cluster: ClusterSpec) -> Self:
        """What a batch says of its cluster's."""
        return cls(cluster.policy, cluster.start, cluster.order, cluster.weights)

    def over(self, own: PolicySpec, default: str = "") -> PolicySpec:
        """This one, completed by a workload's ``own``, whose start rule goes with its policy, or
        ``default``."""
        return self._replace(
            name=self.name or own.name or default,
            start=self.start or (None if self.name else own.start),
            order=self.order or own.order,
            weights=self.weights or own.weights,
        )

    def make(self, calendar: Calendar | None = None) -> Policy:
        """A new one, which keeps what the ``calendar`` says. PolicyError if what is named does not exist, does not go
        together, or cannot do that."""
        if calendar is not None and (self.own is not None or is_external(self.name)):
            raise keeps_none(self.name)
        if self.own is not None:
            policy = registry.build(_at_hand(self.own, self.name), self.name, self.start)
        elif is_external(self.name):
            return self._external()
        else:
            name, said = split(self.name)
            kind = _of_file(name, self.start) if ".py" in name else registry.kind_of(name)
            if calendar is not None:
                kind = registry.booked(name, calendar)
            policy = registry.build(kind, name, self.start, said)
        order = "submission" if self.order is None else self.order
        return ordered(policy, order, self.weights, self.half_life_s)

    def make_each(self, calendars: Sequence[Calendar | None]) -> list[Policy]:
        """A new one for each partition, and what it has to keep. PolicyError as for ``make``, and for one that is made
        already."""
        count = len(calendars)
        if count > 1 and self.own is not None and not isinstance(self.own, type) and _is_policy(self.own):
            raise PolicyError(
                f"policy {self.name!r} is one object, and each of {count} partitions needs one of its own: give its "
                "class, or what makes one when it is called"
            )
        return [self.make(calendar) for calendar in calendars]

    def _external(self) -> Policy:
        if self.start is not None:
            raise PolicyError(f"policy {self.name!r} takes no start rule: it chooses the sizes itself")
        if self.order not in (None, "submission"):
            raise PolicyError(
                f"policy {self.name!r} takes no order ({self.order}): it is told of each job's user, priority and "
                "estimate and orders its queue itself; say --order submission"
            )
        return external(self.name)


def _of_file(name: str, start: str | None) -> Callable[..., Policy]:
    """What makes policies of the user's class, each of them checked."""
    kind = load_class(name)
    if start is not None and not registry.has_start_rule(kind):
        raise PolicyError(f"{name}: class {kind.__name__} takes no start rule (an option start=...)")

    return _checking(kind, f"{name}: class {kind.__name__}", Path(name.partition(".py")[0] + ".py"))


def _checking(kind: Callable[..., Policy], what: str, file: Path | None = None) -> Callable[..., Policy]:
    """What makes the policies of ``kind``, called ``what``, each of them checked."""

    @wraps(kind)
    def made(**options: Any) -> Policy:
        try:
            policy = kind(**options)
            return Checked(policy, file) if file is not None else Checked(policy, _file_of(policy), what)
        except (Exception, SystemExit) as error:
            raise PolicyError(f"{what}: {type(error).__name__}: {error}") from error

    return made


def _file_of(policy: Policy) -> Path:
    """Where its ``decide`` was read, which for a cell of a notebook is no file."""
    code = getattr(policy.decide, "__code__", None)
    return Path(getattr(code, "co_filename", ""))


def own_policy(policy: object) -> PolicySpec:
    """A policy that a program has at hand: a class, anything else that makes one when it is called, as a
    ``functools.partial``, or one that is made, which is used as it is. PolicyError if it is none of them."""
    made = getattr(policy, "func", policy)  # of a partial, what it calls
    name = getattr(made, "__name__", type(made).__name__)
    if not _is_policy(policy) and (isinstance(policy, type) or not callable(policy)):
        what = f"class {name}" if isinstance(policy, type) else f"policy: {policy!r}"
        raise PolicyError(f"{what} is no policy: it has no decide(view)")
    return PolicySpec(name, own=policy)


def spec_of(policy: object) -> PolicySpec:
    """What a program names, or has at hand; PolicyError."""
    return PolicySpec(os.fspath(policy)) if isinstance(policy, str | os.PathLike) else own_policy(policy)


def _at_hand(policy: Any, name: str) -> Callable[..., Policy]:
    """What makes, or gives, the policy of ``own_policy``."""
    makes = isinstance(policy, type) or not _is_policy(policy)
    try:
        signature(policy if makes else type(policy))
    except ValueError as error:  # of a partial that gives what is not taken
        raise PolicyError(f"class {name}: {error.__cause__ or error}") from None
    return _checking(policy if makes else lambda: policy, f"class {name}")


NOTHING_SAID = PolicySpec()


def policy_names(text: str) -> list[str]:
    """``easy,malleable`` as names, each once; a file's name may have a comma, and a command one in quotes.
    PolicyError if one is empty."""
    file, colon, kind = text.rpartition(".py:")
    path = f"{file}.py" if colon and "," not in kind else text
    if ".py" in path and Path(path).is_file():
        return [text]
    parts = text.split(",")
    if PREFIX in text:
        words_of(text)  # its quotes are closed
        parts = _COMMA.split(text)
    names = [name.strip() for name in parts]
    if len(names) > 1 and "" in names:
        raise PolicyError(f"policy: {text!r} has an empty name; write --policy easy,malleable")
    return list(dict.fromkeys(names))


_COMMA = re.compile(r""",(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
"""One that stands in no quotes."""


def inputs_of(name: str) -> list[str]:
    """The files that a policy's name may name: nothing is to be written there."""
    return words_of(name.removeprefix(PREFIX)) if is_external(name) else [name]


def weights_of(texts: Iterable[str]) -> dict[str, float]:
    """Users' weights from texts ``USER=WEIGHT``; PolicyError."""
    return dict(_weight(text) for text in texts)


def _weight(text: str) -> tuple[str, float]:
    user, equals, value = text.rpartition("=")
    weight = as_number(value)
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
        raise PolicyError(f"{path}: there is no class {wanted!r}{nearest(wanted, found)}")
    if not _is_policy(found[wanted]):
        raise PolicyError(f"{path}: class {wanted} is no policy: it has no decide(view)")
    return found[wanted]


def _is_policy(kind: object) -> bool:
    return callable(getattr(kind, "decide", None))  # its name may be known only to its instances


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise PolicyError(f"{path}: there is no such file")
    name = f"pliant_policy_{path.stem}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and the like look their module up
    try:
        # Not by an import: that takes the bytecode of a text before this one, if both have one length and one second.
        exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))  # noqa: S102
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
    """A user's policy: whatever it raises or answers amiss becomes a PolicyError that says when and where, in ``file``,
    which is called ``called``, else by its name."""

    def __init__(self, policy: Policy, file: Path, called: str = "") -> None:
        self._file = file
        self._called = called or file.name
        self.name = str(policy.name)
        self.rebalances = rebalances(policy)
        self.provisions = provisions(policy)
        self.half_life_s = asked_half_life_s(policy)
        self._policy = policy

    def decide(self, view: ClusterView) -> list[Decision]:
        try:
            answer = self._policy.decide(view)
            decisions: list[Any] | None = list(answer) if isinstance(answer, Iterable) else None
        except (Exception, SystemExit) as error:
            where = _line_of(error, self._file).removeprefix(", ")
            where = f" ({self._called}, {where})" if where else ""
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
                sound = isinstance(decision.memory, dict) and isinstance(decision.merge, bool)
            elif isinstance(decision, Acquire | Withdraw | Return):
                sound = isinstance(decision.count, int) and isinstance(decision.reason, Reason)
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
        return amiss(self.name, view, what)
