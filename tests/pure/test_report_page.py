"""The page and the chart: self-contained, escaped, readable by everybody."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pictures import faults
from report_runs import finished, one_resize, realistic

from pliant.charts import figures
from pliant.charts.palette import COLOURS, contrast, fill, fills, rgb
from pliant.core import records as r
from pliant.model.jobs import Check
from pliant.model.nodes import NodeSet
from pliant.page import tables
from pliant.page.html import page, write_report
from pliant.report.data import report_data
from pliant.report.runs import Run
from pliant.report.words import plain

HOSTILE = "<script>alert('x')</script>&\"$x_1$\x1b[31m"

# How dichromats see linear light: Viénot, Brettel and Mollon (1999) for red and green, with the usual
# approximation for blue.
BLIND = {
    "protan": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deutan": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


def loads(text: str) -> list[str]:
    """Everything in a page that a browser would fetch."""
    found = re.findall(r"<(?:script|img|iframe|object|embed)[^>]*\b(?:src|data)\s*=", text)
    found += re.findall(r"<link\b|<base\b|@import|https?://|//[a-z0-9.-]+\.[a-z]{2,}/", text)
    return found + [url for url in re.findall(r"url\(([^)]*)\)", text) if not url.startswith(("#", "data:"))]


@pytest.fixture(scope="module")
def text() -> str:
    return page(realistic())


def hover(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="runs">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_loads_nothing(text: str) -> None:
    assert loads(text) == []
    assert loads('<script src="x.js">') != []
    assert loads("<style>a { background: url(x.png) }</style>") != []


def test_the_page_says_it_first_and_names_its_parts(text: str) -> None:
    assert re.search(r"<h1>Malleable finished in \d+ s where rigid took \d+ s: \d+ % sooner</h1>", text)
    assert '<html lang="en">' in text
    assert "prefers-color-scheme: dark" in text
    assert '<svg role="img" aria-labelledby="chart-title" aria-describedby="chart-desc"' in text
    assert '<title id="chart-title">' in text
    assert all('scope="' in head for head in re.findall(r"<th\b[^>]*>", text))
    assert "paced" not in re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL)


def test_every_shape_of_the_chart_has_its_data(text: str) -> None:
    runs = realistic()
    data = hover(text)["runs"]
    for i, run in enumerate(runs):
        assert set(re.findall(rf'id="run{i}-job(\d+)"', text)) == set(data[i]["jobs"])
        assert len(re.findall(rf'id="run{i}-mark', text)) == len(run.chart.marks) == len(data[i]["marks"])
    panels = [run["panel"] for run in data]
    assert panels[0][0] == panels[1][0]  # one time scale
    assert panels[0][2] == panels[1][2]
    shrink = next(mark for mark in data[1]["marks"] if mark["title"].startswith("▼"))
    assert "could then start" in shrink["text"]


def test_the_chart_follows_light_and_dark(text: str) -> None:
    chart = text[text.index("<svg") : text.index("</svg>")]
    assert "var(--ink)" in chart
    assert not re.search(rf"(fill|stroke): ({figures.INK}|{figures.IDLE}|{figures.PAPER})", chart)
    for name in re.findall(r"var\(--(\w+)\)", chart):
        assert f"--{name}:" in text


def test_what_places_have_done_is_told_of_jobs_that_say_it() -> None:
    ended = finished("easy", 5.0, 6.0)
    assert "places have done" not in page([ended])
    did = {1: {"calls": 1234.0, "idle_s": 0.5}, 0: {"calls": 3.0, "<b>": 2.0}}
    records = [
        msgspec.structs.replace(record, places=did)
        if isinstance(record, r.JobEnded) and record.job == 2
        else record
        for record in ended.records
    ]
    run = Run(ended.name, ended.policy, ended.names, records)
    table = page([run]).partition("places have done</h2>")[2].partition("<h2>")[0]
    rows = " ".join(re.sub(r"<[^>]*>", " ", table).split())
    assert rows == "easy: job2 place calls &lt;b&gt; idle 0 3 2 - 1 1,234 - 500 ms"
    first, second = report_data([run])["runs"][0]["jobs"]
    assert "places" not in first
    assert second["places"] == {"0": {"calls": 3.0, "<b>": 2.0}, "1": {"calls": 1234.0, "idle_s": 0.5}}


def test_hostile_names_are_harmless() -> None:
    run = finished("<img src=x onerror=y>", 12.0, jobs=HOSTILE, policy="</title><script>")
    text = page([run, finished("b", 13.0, jobs=HOSTILE)])
    assert text.count("<script") == 2  # the data and the page's own
    assert text.count("</script>") == 2
    assert "<img" not in text
    assert "alert('x')</script>" not in text
    assert "\x1b" not in text
    assert hover(text)["runs"][0]["jobs"]["1"]["name"] == plain(HOSTILE) + "1"
    assert loads(text) == []


def test_an_overrun_pace_is_loud() -> None:
    good, bad = finished("rigid", 20.0, pace=0.004), finished("malleable", 15.0, pace=0.031)
    assert 'class="alarm"' not in page([good])
    assert "These runs are paced" in page([good])
    assert "rigid overran it by 0.4 %" in page([good])
    text = page([good, bad])
    assert re.search(
        r'class="alarm" role="alert">The figures are not valid: malleable overran its pace by 3.1 %', text
    )


def test_a_wrong_result_is_loud() -> None:
    base = finished("malleable", 12.0, 13.0)
    text = page(
        [
            Run(
                base.name,
                base.policy,
                base.names,
                base.records,
                {"job1": Check(False, "1"), "job2": Check(True, "2")},
            )
        ]
    )
    assert "✗ result is WRONG" in text
    assert "✓ result as expected" in text
    assert "<small>2</small>" not in text  # the right result need not be read
    assert "1 of 2 checked results differ" in text
    assert text.count('class="alarm"') == 1


def test_the_page_needs_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_runs: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr(figures, "build", missing)
    text = page([one_resize()])
    assert "pliant[report]" in text
    assert "<svg" not in text
    assert "solver" in text


def test_files_are_written(tmp_path: Path) -> None:
    runs = [one_resize()]
    write_report(runs, tmp_path / "report.html", tmp_path / "report.json", paced=True)
    assert json.loads((tmp_path / "report.json").read_bytes())["paced"] is True
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_same_runs_give_the_same_chart() -> None:
    first, again = (figures.render_svg(figures.build([one_resize()]).figure) for _ in range(2))
    assert first == again


def test_empty_and_unfinished_runs_are_drawn() -> None:
    base = one_resize()
    cut = Run("cut", "malleable", base.names, base.records[:12])
    for runs in ([], [Run("empty", "fcfs", ["n0"], [])], [cut]):
        assert page(runs).startswith("<!DOCTYPE html>")
    assert "stopped at" in page([cut])


def test_looks_differ_and_stay_with_their_jobs() -> None:
    looks = [fill(i) for i in range(54)]
    assert len({(look.colour, look.hatch) for look in looks}) == 54
    runs = realistic()
    assert fills(runs) == fills(reversed(runs))
    for look in looks:
        assert contrast(look.ink, look.colour) > 4.5


def test_no_job_looks_like_nodes_that_nobody_computes_on() -> None:
    """Slopes are on nodes that are reserved or lost, dots on those that are not there."""
    assert not {letter for i in range(54) for letter in fill(i).hatch} & set("/\\x.")


def test_the_legend_has_whatever_nodes_can_be_of_which_nobody_computes() -> None:
    base = one_resize()
    gone = [
        r.NodesLost(13.0, NodeSet.of([2])),
        r.NodesReturned(13.5, NodeSet.of([0])),
        r.NodesOrdered(14.0, 1),
    ]
    chart = figures.build([Run(base.name, base.policy, base.names, [*base.records, *gone])]).figure
    (legend,) = chart.legends
    entries = [text.get_text() for text in legend.get_texts()]
    assert entries[2:] == ["reserved for a job that grows", "being cleaned", "lost", "not there", "idle"]
    assert faults(chart) == []
    (legend,) = figures.build([base]).figure.legends
    assert len(legend.get_texts()) == 5


def test_a_look_with_a_pattern_has_one_beside_its_name_too() -> None:
    patterns = [tables._swatch(fill(9 * i)) for i in range(6)]
    assert ["gradient" in each for each in patterns] == [False] + [True] * 5
    assert len(set(patterns)) == 6


@pytest.mark.parametrize("kind", BLIND)
def test_colours_survive_colour_blindness(kind: str) -> None:
    def seen(colour: str) -> tuple[float, ...]:
        """Roughly perceptual: the cube root of what such an eye gets."""
        linear = rgb(colour)
        mixed = (sum(w * c for w, c in zip(row, linear, strict=True)) for row in BLIND[kind])
        return tuple(max(0.0, value) ** (1 / 3) for value in mixed)

    for a, b in combinations(COLOURS, 2):
        distance = sum((x - y) ** 2 for x, y in zip(seen(a), seen(b), strict=True)) ** 0.5
        assert distance > 0.08, (a, b, distance)


def test_sizes_are_told_with_spaces_at_which_no_line_is_broken(text: str) -> None:
    """A space that is not printable would be replaced, as control characters are."""
    assert re.search("▲&nbsp;\\d", text)
    assert "\N{REPLACEMENT CHARACTER}" not in text
