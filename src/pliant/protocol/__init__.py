"""Messages between job and scheduler and between controller and agent, and the state machines of both ends.
No I/O: bytes and messages go in, messages and bytes come out."""

VERSION = 1
