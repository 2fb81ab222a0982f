"""Martín-Álvarez et al. 2025 again: what they claim of their resizes, held against ours."""
