"""The launch tree: how agents start each other, and how what is for all reaches all."""
