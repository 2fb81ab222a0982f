"""A PMI-1 server for the ranks of one group on one node, without I/O.

PMI-1 is what an MPI library asks its launcher while MPI_Init runs: lines of ``key=value`` pairs, a request
and a reply each, and a barrier. That the kvsname is unique is what lets groups connect to each other later.
"""

from __future__ import annotations

from collections.abc import Callable

Replies = list[tuple[int, bytes]]


class PmiError(Exception):
    """A rank sent something that is not PMI-1, or asked for an abort."""


class PmiGroup:
    """The key-value space and barrier of ``ranks`` ranks."""

    def __init__(self, ranks: int, kvsname: str) -> None:
        self._ranks = ranks
        self._kvsname = kvsname
        self._values = {"PMI_process_mapping": f"(vector,(0,1,{ranks}))"}
        self._at_barrier: set[int] = set()
        self._commands: dict[str, Callable[[int, dict[str, str]], Replies]] = {
            "init": lambda rank, _: _reply(rank, "response_to_init", pmi_version="1", pmi_subversion="1"),
            "get_maxes": lambda rank, _: _reply(
                rank, "maxes", kvsname_max="256", keylen_max="64", vallen_max="4096"
            ),
            "get_appnum": lambda rank, _: _reply(rank, "appnum", appnum="0"),
            "get_universe_size": lambda rank, _: _reply(rank, "universe_size", size=str(self._ranks)),
            "get_my_kvsname": lambda rank, _: _reply(rank, "my_kvsname", kvsname=self._kvsname),
            "put": self._put,
            "get": self._get,
            "barrier_in": self._barrier,
            "finalize": lambda rank, _: _reply(rank, "finalize_ack"),
        }

    def receive(self, rank: int, line: str) -> Replies:
        """The (rank, line) pairs to send because ``rank`` sent ``line``; PmiError on abort or nonsense."""
        words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        command = words.get("cmd", "")
        if command == "abort":
            raise PmiError(f"rank {rank} called MPI_Abort")
        handler = self._commands.get(command)
        if handler is None:
            return _reply(rank, command or "unknown", rc="-1", msg="unknown_command")
        return handler(rank, words)

    def _put(self, rank: int, words: dict[str, str]) -> Replies:
        if "key" not in words or "value" not in words:
            raise PmiError(f"rank {rank} sent a put without key or value")
        self._values[words["key"]] = words["value"]
        return _reply(rank, "put_result", msg="success")

    def _get(self, rank: int, words: dict[str, str]) -> Replies:
        value = self._values.get(words.get("key", ""))
        if value is None:
            return _reply(rank, "get_result", rc="-1", msg="key_not_found", value="unknown")
        return _reply(rank, "get_result", msg="success", value=value)

    def _barrier(self, rank: int, _words: dict[str, str]) -> Replies:
        self._at_barrier.add(rank)
        if len(self._at_barrier) < self._ranks:
            return []
        self._at_barrier.clear()
        return [reply for each in range(self._ranks) for reply in _reply(each, "barrier_out")]


def _reply(rank: int, command: str, rc: str = "0", **values: str) -> Replies:
    words = [f"cmd={command}", f"rc={rc}", *(f"{key}={value}" for key, value in values.items())]
    return [(rank, (" ".join(words) + "\n").encode())]
