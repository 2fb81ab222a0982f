"""How programs of places grow and shrink."""
