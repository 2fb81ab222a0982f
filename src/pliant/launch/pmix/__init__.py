"""The PMIx server of a group whose ranks load Open MPI: a process of its own beside them."""

from __future__ import annotations

import sys


def command() -> tuple[str, ...]:
    """What starts a server, but for its arguments. It comes up before the ranks do: with the agent's interpreter, and
    neither the site's packages nor what is in the environment, all of which it would load for nothing."""
    source = __file__.rsplit("/", 4)[0]
    start = f"import sys; sys.path.append({source!r}); from pliant.launch.pmix.server import main; main()"
    return sys.executable, "-I", "-S", "-c", start
