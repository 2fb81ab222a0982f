"""The experiments of the papers, run again: each a set of simulations, figures, tables and a verdict."""
