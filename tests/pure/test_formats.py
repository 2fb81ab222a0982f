"""Traces as people have them: packed in some way, with a mark at their head, or of another simulator."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import command, simulated
from hypothesis import given
from hypothesis import strategies as st

from pliant.model.errors import TraceError
from pliant.workloads.formats.swf import parse_swf

TRACE = "; MaxProcs: 4\n1 0 0 10 3 -1 -1 3 10\n2 0 0 5 4 -1 -1 4 5\n"
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
MARKED = {
    "nothing": TRACE.encode(),
    "UTF-8": b"\xef\xbb\xbf" + TRACE.encode(),
    "UTF-16, as by Windows": b"\xff\xfe" + TRACE.replace("\n", "\r\n").encode("utf-16-le"),
    "UTF-16 the other way": b"\xfe\xff" + TRACE.encode("utf-16-be"),
}


@pytest.mark.parametrize(
    "name", ["x.swf", "X.SWF", "x.SWF.GZ", "x.swf.xz", "x.swf.bz2", "x.txt.Xz", "x.swf.old"]
)
@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("mark", MARKED)
def test_what_a_trace_is_packed_in_and_called(name: str, packed: str, mark: str, tmp_path: Path) -> None:
    """By what it has in it: the name says that it is a trace."""
    path = tmp_path / name
    path.write_bytes(PACKED[packed](MARKED[mark]))
    assert simulated(str(path))["makespan_s"] == 15.0


BROKEN: dict[str, tuple[bytes, str]] = {
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00\x00\x00", r"x\.swf: is compressed .*: zstd -d .*x\.swf"),
    "zip": (b"PK\x03\x04\x14\x00\x00\x00", "unzip"),
    "gzip, cut short": (gzip.compress(TRACE.encode())[:-9], "cannot be read"),
    "xz, cut short": (lzma.compress(TRACE.encode())[:-9], "cannot be read"),
    "bzip2, cut short": (bz2.compress(TRACE.encode())[:-9], "cannot be read"),
    "xz by its first bytes alone": (b"\xfd7zXZ\x00" + bytes(20), "cannot be read"),
    "UTF-16, cut short": (b"\xff\xfe" + TRACE.encode("utf-16-le")[:-1], "cannot be read"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_unpacked_is_named(name: str, tmp_path: Path) -> None:
    first, message = BROKEN[name]
    (tmp_path / "x.swf").write_bytes(first)
    with pytest.raises(TraceError, match=message):
        command("simulate", str(tmp_path / "x.swf"))


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1024", 1024),
        ("1,024", 1024),
        ("1,048,576 processors", 1048576),
        ("128 processors", 128),
        ("128, of which 4 are down", 128),
        ("100 (2 of 102 are down)", 100),
        ("1,02", None),
        ("1.5e3", None),
        ("1.024", None),
        ("-1", None),
        ("many", None),
        ("9" * 5000, None),
    ],
)
def test_how_large_the_machine_is(value: str, size: int | None) -> None:
    assert parse_swf([f"; MaxProcs: {value}"], "x.swf").processors == size


@given(st.integers(1, 10**9))
def test_a_number_may_have_commas(size: int) -> None:
    assert parse_swf([f"; MaxProcs: {size:,}"], "x.swf").processors == size


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("; MaxProcs: 4\n; MaxProcs: 8\n", "MaxProcs: 8 of the header, which says MaxProcs: 4 before"),
        (
            "; MaxProcs: 4\n; MaxProcs: 8 new\n; MaxProcs: 16\n; MaxProcs: 8 new\n",
            "MaxProcs: 8 new, 16 of the header, which says MaxProcs: 4 before",
        ),
        (
            "; MaxNodes: 4\n; MaxNodes: 1,024\n",
            "MaxNodes: 1,024 of the header, which says MaxNodes: 4 before",
        ),
        ("; MaxProcs: 4\n; MaxProcs: 4 processors\n", ""),
        ("; MaxProcs: 4\n; MaxNodes: 2\n; MaxNodes: 1\n", ""),  # these do not count
        ("; MaxProcs: -1\n; MaxNodes: 4\n; Note: a\n; Note: b\n", ""),
    ],
)
def test_a_header_that_says_two_sizes_is_no_secret(header: str, note: str, tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    path.write_text(header + TRACE.partition("\n")[2])
    figures = simulated(str(path))
    assert figures["capacity_node_s"] == 4 * 15.0  # by the first
    said = [(row["what"], row["instead"]) for row in figures["unmapped"]]
    assert said == ([(note, "the machine has 4 processors; --nodes says another size")] if note else [])
    assert simulated(str(path), "--nodes", "8")["unmapped"] == []
    if note:
        with pytest.raises(TraceError, match=note):
            command("simulate", str(path), "--strict")
        assert command("simulate", str(path), "--strict", "--nodes", "4")
    else:
        command("simulate", str(path), "--strict")


BATSIM: dict[str, Any] = {
    "nb_res": 4,
    "jobs": [{"id": "1", "subtime": 0, "walltime": 100, "res": 4, "profile": "p"}],
    "profiles": {"p": {"type": "delay", "delay": 10}},
}
SACCT = """\
JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
12               sleep       debug       root          1  COMPLETED      0:0
"""
FOREIGN = [
    ("b.json", json.dumps(BATSIM), r"is a workload of Batsim .*submit_s, run_s, nodes and walltime_s"),
    ("b.json", json.dumps({key: BATSIM[key] for key in ("jobs", "profiles")}), "is a workload of Batsim"),
    ("b.swf", json.dumps(BATSIM, indent=2), "is a workload of Batsim"),
    ("b.batsim", json.dumps(BATSIM), "is a workload of Batsim"),
    (
        "a.json",
        '{"groups": {"g": {"core": 4}}, "resources": {"g": 2}}',
        "is AccaSim's description of a machine",
    ),
    ("s.json", '{"jobs": [{"job_id": 1}], "meta": {"Slurm": {}}}', "is what Slurm's sacct printed"),
    ("s.txt", SACCT, "is what Slurm's sacct printed"),
    ("s.csv", "JobIDRaw|JobName|Start\n1|a|2026-01-01T00:00:00\n", "is what Slurm's sacct printed"),
    ("s.csv", "User|JobID|Elapsed\nann|1|00:01:00\n", "is what Slurm's sacct printed"),
    ("p.xml", "<?xml version='1.0'?>\n<platform version='4.1'/>", r"is a SimGrid platform.*--platform"),
    ("p.swf", "<!DOCTYPE platform SYSTEM 'x'>\n<platform/>", "is a SimGrid platform"),
    ("g.gwf", "# GWF\n# JobID SubmitTime WaitTime\n1 0 0\n", "is a trace of the Grid Workloads Archive"),
    ("j.csv", "job_id,workload_name,profile,submission_time\n", "is Batsim's table of jobs"),
    ("x.trace", TRACE, r"looks like a trace in SWF: such a file is called FILE\.swf"),
    ("x.gz", TRACE, r"looks like a trace in SWF"),
    ("x", "1 0 -1 10 3 -1 -1 3 10\n", r"looks like a trace in SWF"),
    ("x.swf", "# ours\n[cluster]\nnodes = 4\n", r"is a batch: such a file is called FILE\.toml"),
    ("x.swf", '{"began":"","policy":"easy"}\n', r"is a journal: such a file is called FILE\.ndjson"),
    ("x.swf", '{"jobs": []}', r"is JSON, .*FILE\.json"),
    ("x.csv", "a,b\n", r"neither a trace in SWF"),
    ("none.csv", None, r"neither a trace in SWF"),
]


@pytest.mark.parametrize(("name", "text", "message"), FOREIGN)
def test_a_file_of_others_is_named_for_what_it_is(
    name: str, text: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(gzip.compress(text.encode()) if name == "x.gz" else text.encode())
    with pytest.raises(TraceError, match=rf"(?s){name}: {message}"):
        command("simulate", str(path))


def test_other_files_may_have_a_byte_order_mark_too(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    batch, down, jobs = tmp_path / "b.toml", tmp_path / "f.csv", tmp_path / "j.json"
    batch.write_bytes(
        mark + b'[cluster]\nnodes = 2\n[[jobs]]\nname = "a"\ncommand = "true"\nmodel = { work_s = 5 }\n'
    )
    down.write_bytes(mark + b"1,2,4\n")
    jobs.write_bytes(mark + json.dumps({"jobs": [JOB]}).encode())
    (tmp_path / "m.json").write_text(
        '{"phases": [{"iterations": 1, "tasks": [{"type": "idle", "delay": 3}]}]}'
    )
    assert simulated(str(batch), "--cost", "none", "--failures", str(down))["node_failures"] == 1
    assert simulated(str(jobs), "--nodes", "1")["makespan_s"] == 3.0


JOB = {"type": "rigid", "submit_time": 0, "num_nodes": 1, "walltime": 9, "application_model": "m.json"}
