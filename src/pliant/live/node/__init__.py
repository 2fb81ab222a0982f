"""The life of one node's agent."""
