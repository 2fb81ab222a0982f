"""Errors that a user can cause and can mend; each message names what, where and what to do."""


class PliantError(Exception):
    """The root of all errors that Pliant raises on purpose."""


class BatchError(PliantError):
    """A batch file, or a part of it, cannot be run as it stands."""


class PolicyError(PliantError):
    """A policy asked for something that the core cannot allow."""


class ProtocolError(PliantError):
    """A peer sent what the protocol does not allow in this state."""


class TraceError(PliantError):
    """A workload file is malformed."""
