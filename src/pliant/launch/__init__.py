"""Starting and watching processes on nodes: the shell of the agent, and a look through the process table."""

CONTROL = "control.sock"
"""The controller's socket in the run's directory: the agents remove it if the controller could not."""
