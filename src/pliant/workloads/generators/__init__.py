"""Workloads that are drawn, by published models or by their own."""
