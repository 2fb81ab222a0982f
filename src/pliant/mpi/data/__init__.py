"""Data that follow the ranks: what moves (`movable.py`), how it is carried (`transport.py`), what is registered."""
