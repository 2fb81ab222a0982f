"""The nodes of a cluster, the agents on them, and what the controller and an agent tell each other."""
