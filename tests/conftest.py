"""One Hypothesis profile: no deadline for a single example, and what is needed to repeat a failure."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "pliant", deadline=None, print_blob=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("pliant")
