"""The shell around the machine of a launch tree: processes, sockets, what programs read and write."""

LEAVING = "leaving"
"""The last argument of one that is to go on when what has started it ends (`posting.py`)."""
