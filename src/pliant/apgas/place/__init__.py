"""One place, as a machine without I/O, clock or threads."""
