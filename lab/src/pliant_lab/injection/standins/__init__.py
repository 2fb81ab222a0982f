"""What stands in a world for nodes, processes, MPI and where they come from."""
