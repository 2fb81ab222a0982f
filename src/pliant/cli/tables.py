"""Make the generated parts of a document anew: ``python -m pliant.cli.tables docs/protocol.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from pliant.live.tables import refresh

if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(refresh(document.read_text(encoding="utf-8")), encoding="utf-8")
