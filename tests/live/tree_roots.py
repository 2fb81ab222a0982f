"""Controllers of launch trees in processes of their own (`programs/tree_root.py`), which tests kill and begin again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

PROGRAM = str(Path(__file__).with_name("programs") / "tree_root.py")
PATIENCE_S = 60.0
Popen = Callable[..., "subprocess.Popen[str]"]
HERE = partial(subprocess.Popen, text=True)


class Root:
    """One controller. Each that is made with the same words begins in place of the one before."""

    def __init__(self, *words: str, popen: Popen = HERE, **keys: Any) -> None:
        command = [sys.executable, PROGRAM, *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = popen(command, **pipes, **keys)
        self.told: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._news:
                    self.told.append(json.loads(line))
                    self._news.notify_all()

    def order(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def wait_for(self, what: Callable[[Root], object], within_s: float = PATIENCE_S) -> None:
        with self._news:
            assert self._news.wait_for(lambda: what(self), within_s), self.told

    def greeted(self, *nodes: str) -> None:
        """The agents of these nodes, and no others, have said hello to this controller."""
        self.wait_for(lambda root: root.nodes("agenthello") >= {*nodes})
        assert self.nodes("agenthello") == {*nodes}

    def nodes(self, kind: str) -> set[str]:
        """Those that have said this."""
        return {each["node"] for each in self.told if each.get("type") == kind}

    @property
    def gone(self) -> dict[str, str]:
        return {each["node"]: each["why"] for each in self.told if each["event"] == "gone"}

    def kill(self) -> float:
        """When that was."""
        self.process.kill()
        self._end()
        return time.monotonic()

    def finish(self) -> None:
        self.order("finish")
        assert self._end() == 0

    def _end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stdin is not None
        self.process.stdin.close()
        return code
