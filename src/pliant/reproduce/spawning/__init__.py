"""Paper 1 again: what it claims of its resizes, held against ours."""
