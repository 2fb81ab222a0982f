"""Scheduling policies: pure objects with ``decide(view) -> decisions``. They inherit nothing."""
