# widest.py: the widest jobs start first, and what is left goes to those that can grow
from collections.abc import Iterator

from pliant import ClusterView, Decision, Reason, Resize, Start


class Widest:
    name = "widest"

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        free = view.free
        for job in sorted(view.queue, key=lambda job: job.bounds.min, reverse=True):
            if job.bounds.min <= free:
                free -= job.bounds.min
                yield Start(job.id, job.bounds.min, Reason("widest"))
        for job in view.elastic:
            size = job.bounds.floor(job.size + free)
            if size > job.size and view.resizable(job, grow=True):
                free -= size - job.size
                yield Resize(job.id, size, Reason("idle_nodes"))
