"""The shell around the machine of a launch tree: processes, sockets, what programs read and write."""
