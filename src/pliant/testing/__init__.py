"""What tests are made with: ``check_policy`` for policies, and the whole live system in one process, under a virtual
clock and faults drawn by a seed.

What users import is here, and is loaded when it is first asked for.
"""

TYPE_CHECKING = False
"""That of ``typing``; see ``pliant``."""
if TYPE_CHECKING:
    from pliant.testing.policies.cases import Case as Case
    from pliant.testing.policies.check import BrokenPolicy as BrokenPolicy
    from pliant.testing.policies.check import check_policy as check_policy

__all__ = ["BrokenPolicy", "Case", "check_policy"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        import importlib

        if name not in __all__:
            raise AttributeError(f"module 'pliant.testing' has no attribute {name!r}")
        home = "cases" if name == "Case" else "check"
        value = getattr(importlib.import_module(f"pliant.testing.policies.{home}"), name)
        globals()[name] = value
        return value
