"""The scheduler core: events in, commands out, records kept. Pure: no I/O, no clock, no randomness."""
