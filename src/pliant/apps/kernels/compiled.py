"""How kernels are compiled: without the GIL, kept on disk; and the edge to numba, which has no types.

numba keeps what it has compiled beside the source, else in the user's cache, or where NUMBA_CACHE_DIR says. It finds
it again by the types of the arguments, the code, and the processor with all its features, so that machines of
several kinds can share a directory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

try:
    import numba
    from numba.core.registry import cpu_target
    from numba.extending import intrinsic as numba_intrinsic
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing.name} is not installed, which compiles the task programs: pip install 'pliant[apgas]'",
        name=missing.name,
    ) from missing

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compiled at its first call with these types; the next process finds it on disk."""
    try:
        compiled: Any = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError as error:  # neither the source's directory nor the user's can be written
        warnings.warn(
            f"{error}: each process compiles it anew; set NUMBA_CACHE_DIR to a directory that can be written",
            stacklevel=2,
        )
        compiled = numba.njit(nogil=True)(function)
    return cast("Function", compiled)


def part(function: Function) -> Function:
    """Part of the kernels that call it, and put into each of them as it is written.

    As a function of its own it would have a name in what is kept on disk, by its Python name and a count. Two closures
    of one function can come to the same name in two processes, and a third that loads both would call the wrong one.
    """
    compiled: Any = numba.njit(inline="always")(function)
    return cast("Function", compiled)


def intrinsic(function: Callable[..., Any]) -> Any:
    """A function that is given in LLVM's language."""
    return numba_intrinsic(function)


def target() -> tuple[str, frozenset[str]]:
    """What is compiled for: the architecture (``x86_64``), and the features that the processor has (``avx2``)."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.partition("-")[0], frozenset(
        name[1:] for name in features.split(",") if name.startswith("+")
    )
