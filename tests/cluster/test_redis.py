"""Two edges and a real Redis: client-ids and rates hold over both; without Redis nothing stops, and what is shared
heals when it is back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest

from broker.core.errors import Code
from tests.abuse.innocent import Innocent
from tests.harness import Client, scratch
from tests.harness.cluster import Cluster, Process
from tests.harness.servers import LocalServer, local_redis, needs_etcdctl, running

RATE = 200
"""Messages per second of one user."""


@pytest.fixture(scope="module")
def redis_server(request: pytest.FixtureRequest) -> Iterator[LocalServer]:
    with scratch(request, "redis") as folder:
        server = local_redis(folder)
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module")
def edges(redis_server: LocalServer, request: pytest.FixtureRequest) -> Iterator[dict[str, list[Process]]]:
    """Policy → two edges that have it; one owner behind all of them, as this is about edges."""
    settings = {
        "redis.url": f"redis://{redis_server.address}", "edge.client_id_in_use": "takeover", "cluster.replicas": 1,
        "cluster.min_in_sync": 1, "edge.max_producer_rate": RATE,
    }  # fmt: skip
    needs_etcdctl()
    with scratch(request, "cluster") as folder, running("etcd", folder / "etcd", ours=True) as etcd:
        cluster = Cluster(folder, etcd.port, owners=1, settings=settings)
        with cluster:
            cluster.settings["edge.client_id_in_use"] = "refuse"
            refusing = [Process(cluster, "edge", f"refuse-{number}") for number in range(2)]
            cluster.edges += refusing
            for edge in refusing:
                edge.start()
            for edge in refusing:
                edge.wait_ready()
            yield {"takeover": cluster.edges[:2], "refuse": refusing}
            for process in cluster.processes:
                assert "Traceback" not in process.log(), f"{process.id}:\n{process.log()[-5000:]}"


def joined(edge: Process, client_id: str) -> Client:
    client = Client(edge.port)
    client.connect({"client-id": client_id})
    return client


def taken(first: Process, second: Process, client_id: str, within: float = 2) -> bool:
    """Does a connection at the second edge end the one that the first edge has."""
    with joined(first, client_id) as old, joined(second, client_id) as new:
        new.ask("SEND", {"destination": "/queue/redis.alive"})
        try:
            frame = old.read(within)
        except TimeoutError:
            return False
        assert frame["error-code"] == str(Code.CLIENT_ID_IN_USE.number)
        old.ended()
        return True


def test_a_client_id_is_taken_over_from_the_other_edge(edges):
    first, second = edges["takeover"]
    assert taken(first, second, "t1", 30)
    assert taken(second, first, "t1", 30)


def test_a_client_id_of_the_other_edge_is_refused_until_it_is_free(edges):
    first, second = edges["refuse"]
    with joined(first, "r1") as holder:
        with Client(second.port) as other:
            other.send("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": "r1"})
            assert other.expect("ERROR")["error-code"] == str(Code.CLIENT_ID_IN_USE.number)
        holder.ask("DISCONNECT")
    Cluster.wait(lambda: _may_connect(second, "r1"), 30, lambda: "the id is not free")


def test_an_id_of_an_edge_that_was_killed_is_free_in_the_end(edges):
    first, second = edges["refuse"]
    with joined(first, "r2"):
        first.kill()
    Cluster.wait(lambda: _may_connect(second, "r2"), 60, lambda: "the id is not free")
    first.start()
    first.wait_ready()


def _may_connect(edge: Process, client_id: str) -> bool:
    with Client(edge.port) as client:
        client.send("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": client_id})
        return client.read().command == "CONNECTED"


def produce(edge: Process, count: int) -> None:
    with Client(edge.port, timeout=60) as client:
        client.connect()
        for _ in range(count - 1):
            client.send("SEND", {"destination": "/topic/redis.rated"}, b"x" * 4000)  # few of them fit into one read
        client.ask("SEND", {"destination": "/topic/redis.rated"}, b"x")


def test_a_rate_holds_over_both_edges(edges):
    """Each alone would be done after 2.5 s."""
    count = 2 * RATE + RATE // 2
    threads = [threading.Thread(target=produce, args=(edge, count)) for edge in edges["takeover"]]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # What is in the socket when the tokens have run out, and half a second's burst, are free.
    assert time.monotonic() - begun > 1.5 * count / RATE


def test_a_quota_holds_over_both_edges(edges):
    first, second = edges["takeover"]
    said = first.cluster.cluster("quotas", "set", "user:*", "max_connections=3", "max_transactions=0")
    assert '"max_connections": 3' in said
    try:
        with Client(first.port) as one, Client(first.port) as two, Client(second.port) as three:
            one.connect()
            two.connect()
            used = re.compile(r"stomp_quota_used\{[^}]*max_connections[^}]*\} 2")
            Cluster.wait(lambda: used.search(first.metrics()) is not None, 30, first.metrics)
            time.sleep(2)  # edges tell each other twice a second
            three.connect()
            time.sleep(2)
            for edge in (first, second):
                with Client(edge.port) as other:
                    other.send("CONNECT", {"accept-version": "1.2", "host": "x"})
                    refused = other.expect("ERROR")
                    assert refused["error-code"] == str(Code.QUOTA.number) and b"max_connections" in refused.body
            one.send("BEGIN", {"transaction": "a"})
            assert b"max_transactions" in one.expect("ERROR").body
            two.ask("DISCONNECT")
        Cluster.wait(lambda: _may_connect(second, "q1"), 30, lambda: "what has gone is not free")
    finally:
        first.cluster.cluster("quotas", "delete", "user:*")
    Cluster.wait(lambda: "stomp_quota_used" not in second.metrics(), 30, second.metrics)


def test_redis_may_die_and_come_back_under_traffic(edges, redis_server):
    first, second = edges["takeover"]
    clients = [Innocent(edge.port, f"/queue/redis.{edge.id}") for edge in (first, second)]
    time.sleep(0.5)
    redis_server.kill()
    assert taken(first, first, "k1", 30), "an edge alone knows its own connections"
    assert not taken(first, second, "k2"), "nobody can tell"
    redis_server.start()
    for edge in (first, second):
        Cluster.wait(lambda edge=edge: "Redis is back" in edge.log(), 20, lambda edge=edge: edge.log()[-2000:])
    Cluster.wait(lambda: taken(first, second, "k3"), 20, lambda: "edges do not share client-ids again")
    for client in clients:
        client.check(slowest=20)
    assert all("Redis does not answer" in edge.log() for edge in (first, second))
