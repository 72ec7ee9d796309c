"""One ACK or NACK of very many messages, and its owner dies in the middle of it: nothing is lost, nothing is doubled
that was answered, and who is told has what it was told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness import Client, Frame, build
from tests.harness.cluster import Cluster

from .slots import leader_of

pytestmark = pytest.mark.timeout(180)
MANY = 12_000


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.start_again()
    shared.wait_balanced()


@contextmanager
def holding(cluster: Cluster, destination: str, **subscription: str) -> Iterator[tuple[Client, list[Frame]]]:
    """A client that holds MANY messages of it, in their order."""
    with Client(cluster.edges[0].port, timeout=90) as client:
        client.connect({"client-id": "words"})
        client.subscribe(destination, ack="client", prefetch_count=MANY, **subscription)
        with Client(cluster.edges[1].port, timeout=60) as sender:
            sender.connect()
            for start in range(0, MANY, 500):
                sender.raw(b"".join(
                    build("SEND", {"destination": destination, "persistent": "true"}, b"%d" % n)
                    for n in range(start, start + 500)
                ))  # fmt: skip
            sender.sync()
        held = client.messages(MANY)
        assert all(int(frame.body) == n for n, frame in enumerate(held))
        yield client, held


def all_are_dead(cluster: Cluster) -> None:
    with Client(cluster.edges[1].port, timeout=90) as client:
        client.connect()
        client.subscribe("/queue/DLQ", ack="client", prefetch_count=MANY)
        dead = client.messages(MANY)
        assert len({int(frame.body) for frame in dead}) == MANY
        client.ack(dead[-1], receipt="all")
        client.expect("RECEIPT")
    leave_nothing(cluster, "DLQ")


def leave_nothing(cluster: Cluster, queue: str) -> None:
    with Client(cluster.edges[1].port, timeout=60) as client:
        client.connect()
        client.subscribe(f"/queue/{queue}")
        assert len(client.sync()) == 0, "counted, not shown: there may be thousands"


@pytest.mark.parametrize("verdict", ["NACK", "ACK"])
@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_one_word_of_very_much(cluster: Cluster, verdict: str, dies: bool) -> None:
    queue = f"words.{verdict}.{dies}".lower()
    with holding(cluster, f"/queue/{queue}") as (client, held):
        client.settle(verdict, held[-1], receipt="word")
        if dies:
            leader_of(cluster, queue).kill()  # some way into it
        came: list[Frame] = []
        # What was given back comes again, before the receipt or behind it.
        while (frame := client.read()).command != "RECEIPT":
            came.append(frame)
        if verdict == "NACK":
            came += client.messages(MANY - len(came))
            client.ack(came[-1], receipt="all")
            client.expect("RECEIPT")
        assert len(came) == (MANY if verdict == "NACK" else 0)
        assert all(int(frame.body) == n for n, frame in enumerate(came))
    leave_nothing(cluster, queue)


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_very_much_that_is_rejected_is_a_dead_letter_when_that_is_told(cluster: Cluster, dies: bool) -> None:
    """The receipt of DISCONNECT stands for the NACK before it. A death in between may have a part of it come again."""
    queue = f"words.rejected.{dies}".lower()
    with holding(cluster, f"/queue/{queue}") as (client, held):
        client.settle("NACK", held[-1], requeue="false")
        client.send("DISCONNECT", [("receipt", "bye")])
        if dies:
            leader_of(cluster, queue).kill()  # some way into it
        client.expect("RECEIPT", {"receipt-id": "bye"})
    leave_nothing(cluster, queue)
    all_are_dead(cluster)


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_what_is_rejected_is_a_dead_letter_though_its_subscription_is_deleted_behind_it(
    cluster: Cluster, dies: bool
) -> None:
    """By a new leader, which has to read them back first, and which dies as well."""
    topic, name = f"words.deleted.{dies}".lower(), {"durable-subscription-name": f"deleted.{dies}"}
    with holding(cluster, f"/topic/{topic}", durable_subscription_name=f"deleted.{dies}") as (client, held):
        leader = leader_of(cluster, topic)
        leader.kill()
        cluster.wait(lambda: not cluster.leaders().get(leader.id), 60, lambda: f"no fail-over: {cluster.leaders()}")
        if dies:
            leader.start()
            leader.wait_ready()
            cluster.wait_balanced()
        client.settle("NACK", held[-1], requeue="false")
        client.send("UNSUBSCRIBE", [("id", "1"), *name.items(), ("receipt", "gone")])
        if dies:
            leader_of(cluster, topic).kill()  # some way into it
        client.expect("RECEIPT", {"receipt-id": "gone"})
    all_are_dead(cluster)
