"""The job's end of a session as a machine without I/O: bytes come in and are sorted into messages and values,
messages go out as bytes.

Whoever owns it feeds it what its socket has brought, takes what it writes there, and hears when the agent is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pliant.model.errors import PliantError, ProtocolError
from pliant.protocol import VERSION
from pliant.protocol.codec import Lines, from_scheduler
from pliant.protocol.job_side import JobSide
from pliant.protocol.messages import Error, JobMessage, SchedulerMessage, Value, Welcome


def nothing(_: object) -> None:
    pass


class Session:
    """Collects what comes in: ``values`` by epoch and key, everything else in ``inbox``.

    ``write`` gets each line that is to be sent, at once. ``on_message`` sees each message that goes to the inbox
    before it does. ``on_lost`` is told once why the agent is gone, and decides what becomes of the job: if it
    returns, ``gone`` says why, what is sent is dropped, and what has come can still be taken.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        on_message: Callable[[SchedulerMessage], object] = nothing,
        on_lost: Callable[[str], object] = nothing,
    ) -> None:
        self.side = JobSide()
        self.inbox: deque[SchedulerMessage] = deque()
        self.values: dict[tuple[int, str], str] = {}
        self.on_message = on_message
        self.on_lost = on_lost
        self.gone = ""
        self._write = write
        self._lines = Lines()
        self._decoder = from_scheduler()

    def listen(self, on_message: Callable[[SchedulerMessage], object]) -> None:
        """From now on ``on_message`` sees what comes, and first what is in the inbox: that may have come with the
        welcome."""
        self.on_message = on_message
        for message in tuple(self.inbox):
            on_message(message)

    @property
    def closed(self) -> bool:
        """Whether Bye has been said."""
        return self.side.state == "closed"

    def send(self, message: JobMessage) -> None:
        """Write one message; ProtocolError if it is out of place, and nothing is written then."""
        line = self.side.send(message)
        if not self.gone:
            self._write(line)

    def receive(self, data: bytes) -> None:
        """Take in what has come, cut anywhere. What is no known message is answered, and changes nothing."""
        if self.gone:
            return
        try:
            for line in self._lines.feed(data):
                self._sort(line)
        except ProtocolError as error:
            self.lose(str(error))  # where the next line would begin is not known

    def lose(self, why: str) -> None:
        """The agent is gone: tell the owner, unless the session is over anyway."""
        if self.gone:
            return
        said = [message.text for message in self.inbox if isinstance(message, Error)]
        self.gone = "; ".join([why, *said])
        if not self.closed:
            self.on_lost(self.gone)

    def _sort(self, line: bytes) -> None:
        try:
            message = self._decoder.decode(line)
        except ProtocolError as error:
            # The scheduler may be newer.
            self._object(error)
            return
        if isinstance(message, Value):
            self.values[message.epoch, message.key] = message.value
        else:
            self.on_message(message)
            self.inbox.append(message)

    def _object(self, error: ProtocolError) -> None:
        """Tell the scheduler that it sent something out of place, where the session allows that."""
        if self.side.state not in {"new", "closed"}:
            self.send(Error(text=str(error)))

    def take(self) -> SchedulerMessage | None:
        """The next message of the inbox, or None.

        It counts as received only now: the session's state follows what was dealt with, so that an offer and
        its withdrawal that arrive together are answered one after the other.
        """
        while self.inbox:
            message = self.inbox.popleft()
            try:
                self.side.receive(message)
            except ProtocolError as error:
                self._object(error)
            else:
                if not self.closed:
                    return message
        return None

    def welcome(self) -> Welcome:
        """The answer to Hello, once the inbox holds one; PliantError if the scheduler refused."""
        answer = self.take()
        if not isinstance(answer, Welcome):
            said = answer.text if isinstance(answer, Error) else f"it answered {answer}"
            raise PliantError(f"the scheduler refused this session: {said}")
        if answer.version != VERSION:
            raise PliantError(
                f"the scheduler speaks version {answer.version} of the protocol, this program {VERSION}"
            )
        return answer
