"""The live controller: drives the core with what agents, jobs and users say, and carries out its commands."""
