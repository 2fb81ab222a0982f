"""Arithmetic in text with variables, as ElastiSim's performance models have it (it uses the library exprtk):
``flops / num_nodes ^ 0.8``, ``phase_iteration % 2 == 0 ? num_nodes - 4 : num_nodes + 4``.

The lowest first: ``a ? b : c``; ``or`` or ``|``; ``and`` or ``&``; comparisons, which give 1 or 0 (``=`` is ``==``, and
``<>`` is ``!=``); ``+ -``; ``* / %``; a sign; ``^``, from the right. ``%`` has the sign of its first number.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

Computed = Callable[[Mapping[str, float]], float]
"""What an expression comes to, by its variables."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "=": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
LEVELS: tuple[dict[str, Callable[[float, float], float]], ...] = (
    {"or": lambda a, b: bool(a) or bool(b), "|": lambda a, b: bool(a) or bool(b)},
    {"and": lambda a, b: bool(a) and bool(b), "&": lambda a, b: bool(a) and bool(b)},
    dict(COMPARISONS),
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.truediv, "%": math.fmod},
)
"""Operators from the left, the lowest first; signs and powers are above them."""
FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs, "avg": lambda *of: sum(of) / len(of), "ceil": math.ceil,
    "clamp": lambda low, x, high: min(max(low, x), high), "exp": math.exp, "expm1": math.expm1,
    "floor": math.floor, "frac": lambda x: x - math.trunc(x), "hypot": math.hypot,
    "if": lambda condition, yes, no: yes if condition else no,
    "log": math.log, "log10": math.log10, "log1p": math.log1p, "log2": math.log2, "logn": math.log,
    "max": max, "min": min, "not": lambda x: not x, "pow": math.pow, "root": lambda x, n: math.pow(x, 1 / n),
    "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x), "sgn": lambda x: (x > 0) - (x < 0),
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "sqrt": math.sqrt, "sum": lambda *of: sum(of),
    "trunc": math.trunc,
}  # fmt: skip
LONGEST = 1000
DEEPEST = 50
TOKENS = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=|>=|==|!=|<>|[-+*/%^()<>=?:,&|]))"
)


def evaluate(text: str, variables: Mapping[str, float]) -> float:
    """The value of ``text``; ``^`` is a power. ValueError says what is wrong with it."""
    value = _parsed(text).value
    try:
        return float(value(variables))
    except ExpressionError:
        raise
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise ExpressionError(f"{text!r} cannot be computed: {error}") from None


def names(text: str) -> frozenset[str]:
    """The variables in ``text``. ValueError says what is wrong with it."""
    return _parsed(text).names


class ExpressionError(ValueError):
    """What is wrong with an expression."""


class _Parsed(NamedTuple):
    value: Computed
    names: frozenset[str]


@cache
def _parsed(text: str) -> _Parsed:
    """Many jobs share one application model, and each asks for many sizes."""
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression of {len(text)} characters is too long")
    parser = _Parser(text)
    try:
        value = parser.whole()
    except RecursionError:
        raise ExpressionError(f"{text[:20]!r} ... is nested too deeply") from None
    return _Parsed(value, frozenset(parser.names))


class _Parser:
    """Reads one expression, from the left; each method reads what is above one level of operators."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self.depth = 0
        self.tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = TOKENS.match(text, at)
            if found is None:
                raise self._wrong()
            self.tokens.append((found.lastgroup or "", found[0].strip()))
            at = found.end()
        self.tokens.append(("end", ""))
        self.next = 0

    def _wrong(self) -> ValueError:
        return ExpressionError(f"{self.text!r} is no arithmetic expression")

    def _at(self, *signs: str) -> str:
        """Take the next token if it is one of these; else the answer is empty."""
        kind, token = self.tokens[self.next]
        if kind in ("sign", "name") and token in signs:
            self.next += 1
            return token
        return ""

    def _must(self, sign: str) -> None:
        if not self._at(sign):
            raise self._wrong()

    def whole(self) -> Computed:
        value = self.choice()
        if self.tokens[self.next][0] != "end":
            raise self._wrong()
        return value

    def choice(self) -> Computed:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(f"{self.text!r} is nested too deeply")
        value = self.level(0)
        if self._at("?"):
            yes = self.choice()
            self._must(":")
            value = _either(value, yes, self.choice())
        self.depth -= 1
        return value

    def level(self, number: int) -> Computed:
        """What the operators of this level and those above it make."""
        if number == len(LEVELS):
            return self.signed()
        operators = LEVELS[number]
        left = self.level(number + 1)
        while sign := self._at(*operators):
            left = _pair(operators[sign], left, self.level(number + 1))
        return left

    def signed(self) -> Computed:
        minus = False
        while sign := self._at("-", "+"):
            minus ^= sign == "-"
        value = self.power()
        return (lambda known: -value(known)) if minus else value

    def power(self) -> Computed:
        base = self.atom()
        return _pair(math.pow, base, self.signed()) if self._at("^") else base

    def atom(self) -> Computed:
        kind, token = self.tokens[self.next]
        self.next += 1
        if kind == "number":
            number = float(token)
            return lambda _known: number
        if (kind, token) == ("sign", "("):
            value = self.choice()
            self._must(")")
            return value
        if kind != "name":
            raise self._wrong()
        return self._call(token) if self._at("(") else self._variable(token)

    def _variable(self, name: str) -> Computed:
        if name in ("and", "or", "not"):
            raise self._wrong()
        self.names.add(name)

        def value(known: Mapping[str, float]) -> float:
            if name not in known:
                raise ExpressionError(
                    f"{name!r} is no argument of the job (known: {', '.join(known) or 'none'})"
                )
            return known[name]

        return value

    def _call(self, name: str) -> Computed:
        if name not in FUNCTIONS:
            raise ExpressionError(f"{name!r} is not understood here")
        function, arguments = FUNCTIONS[name], [self.choice()]
        while self._at(","):
            arguments.append(self.choice())
        self._must(")")
        return lambda known: function(*[argument(known) for argument in arguments])


def _either(condition: Computed, yes: Computed, no: Computed) -> Computed:
    return lambda known: yes(known) if condition(known) else no(known)


def _pair(function: Callable[[float, float], float], left: Computed, right: Computed) -> Computed:
    return lambda known: function(left(known), right(known))
