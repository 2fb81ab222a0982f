"""Makes a virtual cluster with something that runs on it, says which processes that is, and stays."""

import time

from pliant.testing.cluster import virtual_cluster

with virtual_cluster(nodes=3) as cluster:
    for name in ("head", *cluster.names):
        cluster.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"], on=name)
    running = [process.pid for process in cluster.processes(of="sleep 1000")]
    print(*running, flush=True)
    time.sleep(1000)
