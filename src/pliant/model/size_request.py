"""What a job asks for by itself: Iserte et al. 2018, sections 4.1 and 4.2."""

from __future__ import annotations

import msgspec

from pliant.model.jobs import Bounds


class SizeRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A size within ``bounds``. ``prefers``: of these the preferred one, or as near to it as can be had."""

    bounds: Bounds
    prefers: bool = False

    def goal(self, allowed: Bounds, size: int, free: int | None = None) -> int:
        """The size that a job of ``size`` nodes would go to, where ``free`` others are (None: as many as it takes).

        It is one of the ``allowed`` sizes within the wish, or ``size`` if none is. Without a preference it is the one
        that is nearest to ``size``, the one below where that lies between two, and ``free`` does not matter. A
        preferred size that is none of the allowed ones stands for the nearest that is. Where it would take more than
        ``free`` nodes, the job goes towards it.
        """
        sizes = self.bounds.intersect(allowed)
        if sizes is None:
            return size
        nearest = sizes.nearest(size, sizes.min, sizes.max)
        if not self.prefers:
            return nearest
        if free is None or sizes.preferred <= size + free:
            return sizes.preferred
        return max(nearest, sizes.floor(size + free))

    def describe(self) -> str:
        return self.bounds.describe() + (f", rather {self.bounds.preferred}" if self.prefers else "")

    def met(self, allowed: Bounds, size: int) -> bool:
        """Whether a job of ``size`` nodes has what it asks for, or can never have it."""
        return self.goal(allowed, size) == size
