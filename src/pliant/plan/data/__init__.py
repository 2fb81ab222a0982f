"""Where the rows of an axis are, and what has to move when they are to be elsewhere. Pure."""
