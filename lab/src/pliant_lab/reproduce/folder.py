"""What a study leaves: figures as PNG and SVG, tables as CSV, and a README.md that tells them."""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from pliant.model.errors import BatchError, PliantError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARK = "README.md"
"""Every folder that a study has written has this file."""


Left = TypeVar("Left")


def left_in(folder: Path, file: str, kind: type[Left], command: str) -> Left:
    """What an earlier ``command`` has measured and left in ``folder`` as the JSON ``file``; PliantError if that cannot
    be read."""
    try:
        return msgspec.json.decode((folder / file).read_bytes(), type=kind)
    except OSError as error:
        raise PliantError(
            f"--from {folder}: {file} cannot be read: {error.strerror}; name a folder that {command} has written"
        ) from None
    except msgspec.MsgspecError as error:
        raise PliantError(f"--from {folder}: {file} is not as it was written: {error}") from None


class Folder:
    """A folder that appears complete or not at all; one that a study has written before is replaced.

    BatchError if ``path`` cannot be written, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / MARK).is_file())):
            raise BatchError(f"{path}: exists and is no folder of results; give another by --out")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        except OSError as error:
            raise BatchError(f"{path}: cannot be written: {error.strerror}") from None
        self.files: list[str] = []

    def __enter__(self) -> Self:
        return self

    def figure(self, name: str, figure: Figure) -> None:
        """``figure`` as ``name``.png and ``name``.svg."""
        from matplotlib import rc_context

        with rc_context({"svg.hashsalt": "pliant", "svg.fonttype": "none"}):
            figure.savefig(self._made / f"{name}.png", dpi=130)
            figure.savefig(self._made / f"{name}.svg", metadata={"Date": None})
        self.files += [f"{name}.png", f"{name}.svg"]

    def table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """``rows`` as ``name``.csv, floats with six significant digits."""
        with (self._made / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            for row in rows:
                writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])
        self.files.append(f"{name}.csv")

    def text(self, name: str, text: str) -> None:
        """``text`` as the file ``name``."""
        (self._made / name).write_text(text, encoding="utf-8")
        self.files.append(name)

    def readme(self, text: str) -> None:
        (self._made / MARK).write_text(text, encoding="utf-8")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            shutil.rmtree(self._made, ignore_errors=True)
            return
        self._made.chmod(0o755)
        if self.path.exists():
            shutil.rmtree(self.path)
        self._made.rename(self.path)
