"""A trace goes through a cluster: sent at one edge, stored by an owner, delivered and settled by another edge."""

from __future__ import annotations

from broker.client import connect
from tests.harness.cluster import HOST
from tests.harness.collector import collecting

from .conftest import MakeCluster

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def test_edges_and_owners_tell_parts_of_one_trace(cluster_of: MakeCluster):
    with collecting() as collector:
        cluster = cluster_of(owners=2, edges=2, settings={"tracing.endpoint": collector.endpoint})
        one, other = cluster.edges
        async with (
            connect(f"stomp://{HOST}:{one.port}") as sender,
            connect(f"stomp://{HOST}:{other.port}") as consumer,
            consumer.subscribe("orders", ack="client-individual") as subscription,
        ):
            headers = {"destination-type": "ANYCAST", "persistent": "true", "traceparent": f"00-{TRACE}-{SPAN}-01"}
            await sender.send("orders", "x", headers, receipt=True)
            message = await anext(aiter(subscription))
            assert message.headers["traceparent"] == headers["traceparent"]
            await message.ack(receipt=True)
            collector.until(lambda: len(collector.of(TRACE)) == 4, "not four spans")
        told = [(span.name, span.service, span.parent) for span in collector.of(TRACE)]
        assert sorted(told) == [
            ("ack orders", "stampede-edge", SPAN),
            ("deliver orders", "stampede-edge", SPAN),
            ("send orders", "stampede-edge", SPAN),
            ("store orders", "stampede-owner", SPAN),
        ]
