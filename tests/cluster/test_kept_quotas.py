"""Quotas of queues and bytes of a user in a cluster: one limit over all owners and edges, known to who leads next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import Client
from tests.harness.cluster import Cluster

from .slots import leader_of, led_by

pytestmark = pytest.mark.timeout(300)

USER = "user:anonymous"


def told(cluster: Cluster, address: str, edge: int, body: bytes = b"x") -> str:
    """What a SEND is answered; empty: it is taken."""
    with Client(cluster.edges[edge].port, timeout=120) as client:
        client.connect()
        client.send("SEND", {"destination": f"/queue/{address}", "persistent": "true", "receipt": "r"}, body)
        answer = client.read()
        if answer.command == "RECEIPT":
            return ""
        assert answer.command == "ERROR", answer
        return f"{answer['error-code']} {answer.body.decode()}"


def until_told(cluster: Cluster, text: str, address: str, edge: int, body: bytes = b"x") -> None:
    last = ""

    def said() -> bool:
        nonlocal last
        last = told(cluster, address, edge, body)
        return text in last if text else not last

    Cluster.wait(said, 60, lambda: f"not {text!r}, but {last!r}")


@pytest.fixture
def limited(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.cluster("quotas", "delete", USER)


def test_queues_count_over_all_owners_those_of_a_transaction_too(limited: Cluster) -> None:
    """First: what the other one makes counts as well."""
    limited.cluster("quotas", "set", USER, "max_queues=3")
    edge = limited.edges[0]
    Cluster.wait(lambda: 'limit="max_queues"' in edge.metrics(), 30, edge.metrics)
    names = [next(led_by(limited, owner, "kept.queues")) for owner in limited.owners]
    with Client(edge.port, timeout=120) as client:
        client.connect()
        client.ask("BEGIN", {"transaction": "t"})
        for name in names:
            client.ask("SEND", {"destination": f"/queue/{name}", "transaction": "t", "persistent": "true"}, b"x")
        client.ask("COMMIT", {"transaction": "t"})
    made = 0

    def refused() -> bool:
        nonlocal made
        made += 1
        return "user:anonymous has 3 queues at most" in told(limited, f"kept.more.{made}", 1)

    Cluster.wait(refused, 60, lambda: f"{made} queues were made")
    for at, name in enumerate(names):
        assert not told(limited, name, at % 2), "those that are there are sent to"


def test_bytes_are_refused_by_each_edge_and_by_who_leads_next_until_the_limit_has_gone(limited: Cluster) -> None:
    limited.cluster("quotas", "set", USER, "max_bytes=200000")
    full, body = "user:anonymous has 200000 bytes in the queues he has made at most", b"x" * 60_000
    names = [next(led_by(limited, owner, "kept.bytes")) for owner in limited.owners]
    for edge in (0, 1):
        until_told(limited, "", names[0], edge)
    Cluster.wait(lambda: "user:anonymous" in limited.edges[1].metrics(), 30, limited.edges[1].metrics)
    for name in names[1:]:
        until_told(limited, "", name, 0, body)
    until_told(limited, full, names[0], 0, body)
    until_told(limited, "1513 ", names[0], 1)
    until_told(limited, full, names[1], 1)
    victim = leader_of(limited, names[0])
    victim.kill()
    until_told(limited, full, names[0], 1)
    victim.start()
    victim.wait_ready()
    limited.wait_balanced()
    limited.cluster("quotas", "set", USER, "max_bytes=90000000")
    until_told(limited, "", names[0], 1)
