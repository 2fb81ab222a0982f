"""What is said of an agent whose link has ended."""

from __future__ import annotations

import pytest

from pliant.drivers.fork import trouble
from pliant.model.errors import ProtocolError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "silent for 35 s"),
        (ConnectionError(), "the connection broke (ConnectionError)"),
        (ConnectionResetError(104, "Connection reset by peer"), "[Errno 104] Connection reset by peer"),
        (BrokenPipeError(), "the connection broke (BrokenPipeError)"),
        (ProtocolError("a line of more than 9 bytes"), "a line of more than 9 bytes"),
    ],
)
def test_no_trouble_is_without_words(error: Exception, said: str) -> None:
    assert trouble(error) == said
