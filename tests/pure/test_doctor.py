"""What ``pliant doctor`` shows of what an MPI's launcher says."""

from __future__ import annotations

from pliant.cli.doctor_mpi import WORDS, gist, refusal

AS_ROOT = """\
--------------------------------------------------------------------------
prterun has detected an attempt to run as root.

Running as root is *strongly* discouraged as any mistake (e.g., in
defining TMPDIR) or bug can result in catastrophic damage to the OS
file system, leaving your system in an unusable state.

We strongly suggest that you run prterun as a non-root user.

You can override this protection by adding the --allow-run-as-root
option to your command line.  However, we reiterate our strong advice
against doing so - please do so at your own risk.
--------------------------------------------------------------------------
"""
CRASH = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 0 PID 10624 RUNNING AT vm
=   KILLED BY SIGNAL: 11 (Segmentation fault)
===================================================================================
"""
RAISED = (
    'Traceback (most recent call last):\n  File "<string>", line 1\nImportError: libmpi.so.12: no such file\n'
)


def test_a_launcher_that_refuses_root_is_told_in_a_sentence() -> None:
    assert refusal(1, AS_ROOT) == "tried under mpiexec: it refuses to run as root"


def test_of_all_else_that_is_said_the_gist_is_told_from_its_beginning() -> None:
    assert refusal(255, CRASH) == (
        "tried under mpiexec: exit code 255: BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES "
        "RANK 0 PID 10624 RUNNING AT vm KILLED BY SIGNAL: 11 (Segmentation fault)"
    )
    assert gist(RAISED) == "ImportError: libmpi.so.12: no such file"
    assert len(gist("word " * 1000)) == WORDS + 3
    assert gist("") == ""
