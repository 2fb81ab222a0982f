"""A cluster of network namespaces with sshd on one machine: launchers and jobs over many nodes, tried without them.

@pytest.fixture(scope="module")
def cluster():
    if reason := why_not():
        pytest.skip(reason)
    with virtual_cluster(nodes=16) as cluster:
        yield cluster

def test_every_node_says_its_name(cluster):
    done = cluster.run(["my-launcher", *cluster.names, "hostname"], timeout_s=30)
    assert sorted(done.stdout.split()) == list(cluster.names)
    assert not cluster.processes(of="my-launcher")
"""

from pliant.testing.cluster.possible import why_not
from pliant.testing.cluster.virtual import Process, VirtualCluster, virtual_cluster

__all__ = ["Process", "VirtualCluster", "virtual_cluster", "why_not"]
