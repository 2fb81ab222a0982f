"""Starting and watching processes on nodes: the shell of the agent, and a look through the process table."""
