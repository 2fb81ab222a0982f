"""The vocabulary that every other part shares: nodes, jobs, bounds, speed-up models, errors. Pure."""
