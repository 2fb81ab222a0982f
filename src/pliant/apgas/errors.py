"""What can go wrong between places."""

from __future__ import annotations

from pliant.model.errors import PliantError


class BadPlaceException(PliantError):  # noqa: N818 - the name that APGAS knows
    """There is no such place: never was, has left or is leaving; or what was asked is not of this place."""


class DeadPlaceException(PliantError):  # noqa: N818 - the same
    """A place has died, and what ran there is lost."""

    def __init__(self, place: int, why: str = "", what: str = "") -> None:
        super().__init__(
            f"place({place}) is dead" + (f": {why}" if why else "") + (f"; {what}" if what else "")
        )
        self.place = place
        self.why = why

    def __reduce__(self) -> tuple[type[DeadPlaceException], tuple[int, str]]:
        return type(self), (self.place, self.why)


class MultipleException(ExceptionGroup[Exception]):
    """What the tasks of a finish have raised, each with a cause that says where; ``except*`` takes it apart."""


class RemoteError(PliantError):
    """An exception of another place that could not be sent: its text. Its cause is a RemoteTraceback."""


class RemoteTraceback(Exception):  # noqa: N818 - the name of the standard library's, which is as well no error itself
    """The cause of an exception that another place raised: where that was, and the traceback, in ``tb``."""

    def __init__(self, tb: str) -> None:
        super().__init__(tb)
        self.tb = tb

    def __str__(self) -> str:
        return f"\n{self.tb}"
