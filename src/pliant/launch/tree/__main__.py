"""An agent of a launch tree, as a program: `entry.py`."""

import sys

if __name__ == "__main__":
    # Where there is no ssl, asyncio goes without. Links here are not encrypted, and some of the processor time that an
    # agent takes to start would go to it.
    sys.modules["ssl"] = None  # type: ignore[assignment]

    from pliant.launch.tree.entry import main

    main()
