"""Request and reply by temporary queues while owners die: the requester is at one edge, who answers at the other one,
and each owner in turn is killed between a request and its answer."""

from __future__ import annotations

import pytest

from tests.harness import Client
from tests.harness.cluster import Cluster

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]
SETTINGS = {"cluster.lease_s": 5, "cluster.dead_after_ms": 2000}
PATIENCE_S = 90.0
ASKED, ANSWERS = "/queue/asked", "/temp-queue/answers"


def test_an_answer_finds_who_asked_whichever_owner_dies(shared: Cluster):
    one, other = shared.edges
    with Client(one.port, timeout=PATIENCE_S) as requester, Client(other.port, timeout=PATIENCE_S) as worker:
        requester.connect()
        worker.connect()
        worker.subscribe(ASKED, ack="client-individual")
        told = set()
        for number, victim in enumerate(shared.owners):
            asked = {"destination": ASKED, "reply-to": ANSWERS, "correlation-id": number, "persistent": "true"}
            requester.ask("SEND", asked, b"?%d" % number)
            request = worker.expect("MESSAGE")
            assert request.body == b"?%d" % number
            told.add(request["reply-to"])
            victim.kill()
            answer = {"destination": request["reply-to"], "correlation-id": number, "persistent": "true"}
            worker.ask("SEND", answer, b"!%d" % number)
            worker.ask("ACK", {"id": request["ack"]})
            found = requester.expect("MESSAGE")
            assert (found.body, found["correlation-id"]) == (b"!%d" % number, str(number))
            assert found["subscription"] == ANSWERS
            victim.start()
            victim.wait_ready()
            shared.wait_balanced(120)
        assert len(told) == 1, "the name of its temporary queue is the same for as long as it is connected"
        requester.nothing()
        worker.nothing()
