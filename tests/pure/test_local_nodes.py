"""What drivers say of agents whose links have ended, and of what they cannot keep for the next controller."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pliant.drivers import Event
from pliant.drivers.fork import trouble
from pliant.drivers.tree import Hosts, TreeNodes
from pliant.launch.tree.posting import Starting
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Fleet
from pliant.live.tree import messages as b
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


def test_people_are_told_among_the_news_where_the_next_controller_may_not_find_all_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir()
    nodes = TreeNodes(Hosts(names=("a",), starting=Starting()), 1, "run", runtime, grace=5.0)
    told: list[Event] = []
    nodes._tell = told.append
    shutil.rmtree(runtime)
    nodes.gone(b.Gone(1, "a", "lost"))
    [warned] = told
    assert isinstance(warned, o.Warned)
    assert capsys.readouterr() == ("", "")
    fleet = Fleet(nodes.site)
    fleet.take(warned)
    [notice] = fleet.outputs
    assert isinstance(notice, o.Notice)
    assert notice.text.endswith(
        "No such file or directory; a controller that begins again may not find all nodes"
    )
