"""What may begin only when the records of it have been written: starts and offers."""

from __future__ import annotations

from pliant.core import commands as c


class Beginnings:
    """The core's commands that begin something, from when they are made until it is known that their records are on
    disk. A job has one of them at most: a start, of it or of newcomers, or an offer."""

    def __init__(self) -> None:
        self._commands: dict[int, c.Start | c.Offer] = {}

    def __bool__(self) -> bool:
        return bool(self._commands)

    def add(self, command: c.Start | c.Offer) -> None:
        self._commands[command.job] = command

    def drop(self, job: int) -> c.Start | c.Offer | None:
        """It will not begin: what was to begin, if anything was."""
        return self._commands.pop(job, None)

    def take(self) -> list[c.Start | c.Offer]:
        """All of them, in the order in which they were made."""
        commands, self._commands = list(self._commands.values()), {}
        return commands
