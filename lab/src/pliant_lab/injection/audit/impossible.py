"""What cannot happen in a world."""

from __future__ import annotations

from pliant.protocol import resizing

_FENCE = "all ranks of its groups have passed MPI_Init, and no newcomer has been started"
IMPOSSIBLE: dict[tuple[str, str], str] = {
    **{
        ("lose-reserved", stage): "no node is reserved"
        for stage in (resizing.NONE, *resizing.OUTSTANDING)
        if stage not in resizing.HOLDING
    },
    **{("kill-in-fence", stage): _FENCE for stage in resizing.OUTSTANDING if stage not in resizing.STARTED},
}
"""Which fault no job can meet in which state of a resize, and why. A job that is offered one is in its loop, where its
groups are together; its newcomers are started when it accepts an offer that has not been taken back."""
