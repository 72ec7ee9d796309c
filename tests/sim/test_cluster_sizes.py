"""Clusters of more than three owners: what docs/scaling.md says of growth (`make scaling` has larger ones)."""

from __future__ import annotations

from broker.core.ids import SLOTS
from tests.scaling.growth import Cluster


def test_a_dead_owner_of_many_is_not_waited_for_until_its_lease_ends():
    """Of eight only its two peers have streams to it (broker/cluster/suspicion.py)."""
    with Cluster(owners=8, edges=2) as cluster:
        took, _ = cluster.lose_owner()
    assert took < 1.0


def test_what_a_cluster_says_at_rest_grows_with_its_streams_alone():
    seconds, beat_s = 2.0, 0.08
    with Cluster(owners=8, edges=4) as cluster:
        streams = cluster.streams()
        assert streams == {"edge → owner": 8 * 4, "owner → owner": 2 * 8}
        idle = cluster.look(seconds)
        assert len(cluster.store.keys) < SLOTS + 4 * (8 + 4)
    beats = seconds / beat_s
    assert idle.messages["edge → owner"] <= 1.05 * beats * streams["edge → owner"]
    assert idle.messages["owner → owner"] <= 2.1 * beats * streams["owner → owner"]
    assert idle.store["writes"] == 0
