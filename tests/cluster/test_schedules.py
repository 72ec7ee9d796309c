"""What is sent again and again goes on when the owner that leads where it rests dies: it is one message, as ever."""

from __future__ import annotations

import time

import pytest

from tests.harness import Client

from .slots import leader_of

SETTINGS = {"edge.dialect": "activemq"}
PERIOD_S = 0.25
pytestmark = pytest.mark.timeout(180)


def test_it_outlives_its_sender_and_its_owner(shared):
    shared.wait_balanced()
    times = {"AMQ_SCHEDULED_PERIOD": round(PERIOD_S * 1000), "AMQ_SCHEDULED_REPEAT": -1}
    with Client(shared.edges[0].port) as sender:
        sender.connect()
        sender.ask("SEND", {"destination": "/queue/beat", **times}, b"x")
        sender.ask("DISCONNECT")
    with Client(shared.edges[1].port, timeout=60) as client:
        client.connect()
        client.subscribe("/queue/beat")
        began, seen = time.monotonic(), client.messages(3)
        victim = leader_of(shared, "$scheduled.beat")
        victim.kill()
        shared.wait(lambda: leader_of(shared, "$scheduled.beat") is not victim, 60, lambda: "not replaced")
        victim.start()
        victim.wait_ready()
        end = time.monotonic() + 20 * PERIOD_S
        while time.monotonic() < end:
            seen.append(client.expect("MESSAGE"))
        most = (time.monotonic() - began) / PERIOD_S
    assert {message.body for message in seen} == {b"x"}
    assert len({message["scheduledJobId"] for message in seen}) == 1
    assert len({message["message-id"] for message in seen}) == len(seen)
    assert 23 - 6 <= len(seen) <= most + 2, "one beat for each period, and none for a copy of it"
