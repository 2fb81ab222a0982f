"""One Hypothesis profile: no deadline for a single example, and what is needed to repeat a failure. PLIANT_EXAMPLES says
how many examples a property is tried with; one that names its own number goes along (``drawing.examples``). And signals
as they are in a terminal: a shell that starts the tests in the background has them, and what they start, ignore SIGINT.
"""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile(
    "pliant",
    deadline=None,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("PLIANT_EXAMPLES", "60")),
)
settings.load_profile("pliant")


@pytest.fixture(scope="session", autouse=True)
def _figures_can_be_read() -> Iterator[None]:
    """Whatever a study leaves in a test can be read: no text of its figures is cut off or upon other text."""
    from pliant_lab.reproduce.folder import Folder

    kept = Folder.figure

    def checked(self: Folder, name: str, figure: Any) -> None:
        from pictures import faults

        assert faults(figure) == [], name
        kept(self, name, figure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "figure", checked)
        yield
