"""Arithmetic in text with variables, as ElastiSim's performance models have it: ``flops / num_nodes ^ 0.8``."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import cache

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: math.fmod,
    ast.Pow: math.pow,
}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs, "ceil": math.ceil, "exp": math.exp, "floor": math.floor, "log": math.log, "log10": math.log10,
    "log2": math.log2, "max": max, "min": min, "pow": math.pow, "round": round, "sqrt": math.sqrt,
}  # fmt: skip
LONGEST = 1000


def evaluate(text: str, variables: Mapping[str, float]) -> float:
    """The value of ``text``; ``^`` is a power. ValueError says what is wrong with it."""
    parsed = _parsed(text)
    try:
        return float(_value(parsed, variables))
    except (ArithmeticError, TypeError, RecursionError) as error:
        raise ValueError(f"{text!r} cannot be computed: {error}") from None


@cache
def _parsed(text: str) -> ast.expr:
    """Many jobs share one application model, and each asks for many sizes."""
    if len(text) > LONGEST:
        raise ValueError(f"an expression of {len(text)} characters is too long")
    try:
        return ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError):
        raise ValueError(f"{text!r} is no arithmetic expression") from None


def _value(node: ast.expr, variables: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name not in variables:
                raise ValueError(
                    f"{name!r} is no argument of the job (known: {', '.join(variables) or 'none'})"
                )
            return variables[name]
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, variables), _value(right, variables))
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, variables)
        case ast.UnaryOp(ast.UAdd(), operand):
            return _value(operand, variables)
        case ast.Call(ast.Name(id=name), arguments, []) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(argument, variables) for argument in arguments))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not understood here")
