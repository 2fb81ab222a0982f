"""Studies: many simulations in parallel processes, and what is kept of each."""
