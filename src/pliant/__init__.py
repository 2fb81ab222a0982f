"""Parallel jobs that change size while they run, and the scheduler that makes use of it.

What users import is here, and stays here; everything below may move.

- Programs: ``mpi`` for ranks, ``apgas`` for tasks, and ``Amdahl`` and ``Downey``, models by which their steps
  can be paced.
- Policies: a ``Policy`` sees a ``ClusterView`` with a ``JobView`` for each job, and news of each ``End``. A
  ``Decision`` is a ``Start`` or a ``Resize``, with its ``Reason``, a ``Promise``, a ``Wake`` or a ``Remember``; or
  of nodes that come and go an ``Acquire``, a ``Withdraw`` or a ``Return``.
  ``Bounds``, ``JobSpec``, ``JobClass``, ``JobKind`` and ``JobState`` are what is known of a job.
- Simulations: ``simulate`` runs a workload under a policy and gives a ``Result``, with metrics and a table of jobs.
  ``compare`` runs it under several, and gives a ``Comparison``: their figures, and what differs, job by job.
  A ``Job`` is one of a workload that is made in a program; ``testing.check_policy`` looks for workloads under which
  a policy goes wrong.
- All: ``PliantError``, the root of all errors, and ``PolicyError``.

Each is loaded when it is first asked for, so that ``import pliant`` loads nothing else.
"""

TYPE_CHECKING = False
"""That of ``typing``, which takes longer to load than all of this; checkers go by the name."""
if TYPE_CHECKING:
    from pliant import apgas as apgas
    from pliant import mpi as mpi
    from pliant import testing as testing
    from pliant.model.errors import PliantError as PliantError
    from pliant.model.errors import PolicyError as PolicyError
    from pliant.model.jobs import Bounds as Bounds
    from pliant.model.jobs import JobClass as JobClass
    from pliant.model.jobs import JobSpec as JobSpec
    from pliant.model.jobs import JobState as JobState
    from pliant.model.kinds import JobKind as JobKind
    from pliant.model.speedup import Amdahl as Amdahl
    from pliant.model.speedup import Downey as Downey
    from pliant.policy.job_view import JobView as JobView
    from pliant.policy.view import Acquire as Acquire
    from pliant.policy.view import ClusterView as ClusterView
    from pliant.policy.view import Decision as Decision
    from pliant.policy.view import End as End
    from pliant.policy.view import Policy as Policy
    from pliant.policy.view import Promise as Promise
    from pliant.policy.view import Reason as Reason
    from pliant.policy.view import Remember as Remember
    from pliant.policy.view import Resize as Resize
    from pliant.policy.view import Return as Return
    from pliant.policy.view import Start as Start
    from pliant.policy.view import Wake as Wake
    from pliant.policy.view import Withdraw as Withdraw
    from pliant.study.comparison import Comparison as Comparison
    from pliant.study.comparison import compare as compare
    from pliant.study.library import Result as Result
    from pliant.study.library import simulate as simulate
    from pliant.workloads.inline_jobs import Job as Job

__version__ = "0.1.0"
__all__ = [
    "Acquire",
    "Amdahl",
    "Bounds",
    "ClusterView",
    "Comparison",
    "Decision",
    "Downey",
    "End",
    "Job",
    "JobClass",
    "JobKind",
    "JobSpec",
    "JobState",
    "JobView",
    "PliantError",
    "Policy",
    "PolicyError",
    "Promise",
    "Reason",
    "Remember",
    "Resize",
    "Result",
    "Return",
    "Start",
    "Wake",
    "Withdraw",
    "compare",
    "simulate",
]
_ROOMS = ("apgas", "mpi", "testing")
"""Modules of ours that are asked for like names. Not in ``__all__``: ``import *`` must not start MPI."""
_HOMES = {
    **dict.fromkeys(("PliantError", "PolicyError"), "model.errors"),
    **dict.fromkeys(("Bounds", "JobClass", "JobSpec", "JobState"), "model.jobs"),
    "JobKind": "model.kinds",
    **dict.fromkeys(("Amdahl", "Downey"), "model.speedup"),
    "Job": "workloads.inline_jobs",
    **dict.fromkeys(("Comparison", "compare"), "study.comparison"),
    **dict.fromkeys(("Result", "simulate"), "study.library"),
}
"""Where they are, if not among what policies see and answer."""

if not TYPE_CHECKING:  # else any name would do for a checker

    def __getattr__(name: str) -> object:
        import importlib

        if name in _ROOMS:
            return importlib.import_module(f"pliant.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'pliant' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"pliant.{_HOMES.get(name, 'policy.view')}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
