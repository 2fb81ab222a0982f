"""Starting and watching processes on nodes: the agent, its PMI-1 server, the proof that a node is clean."""
