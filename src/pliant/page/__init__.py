"""The HTML page of runs, live and simulated."""
