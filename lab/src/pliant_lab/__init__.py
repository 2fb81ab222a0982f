"""The laboratory of Pliant: faults injected by seed, measurements, and the papers' experiments run again.

Its commands are ``pliant bench`` and ``pliant reproduce``. It imports ``pliant``, never the other way around.
"""
