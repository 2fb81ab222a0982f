"""Launch trees under a virtual clock, and what must hold of them."""
