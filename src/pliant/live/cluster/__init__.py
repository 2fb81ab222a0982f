"""The controller of a live cluster: the core, the lives of its jobs, its nodes and links."""
