"""Messages to `ActiveMQ.Scheduler.Management`: what is sent again and again is listed, and taken back."""

from __future__ import annotations

import time

import pytest

from broker.core.errors import Code

from ..checks import error

WHERE = "/topic/ActiveMQ.Scheduler.Management"
REPLY = "/temp-queue/jobs"
NEVER = {"AMQ_SCHEDULED_DELAY": 3_600_000, "AMQ_SCHEDULED_PERIOD": 1000, "AMQ_SCHEDULED_REPEAT": -1}


def ask(client, action, **headers):
    client.ask("SEND", {"destination": WHERE, "AMQ_SCHEDULER_ACTION": action, **headers})


def browse(client, name, **headers):
    """Body → what is told of it, of those for destinations with this name."""
    ask(client, "BROWSE", **{"reply-to": REPLY, "correlation-id": "c", **headers})
    found = {}
    for message in client.sync():
        assert (message["subscription"], message["correlation-id"]) == (REPLY, "c")
        if name in message["original-destination"]:
            found[message.body.decode()] = message
    return found


def test_what_is_scheduled_is_listed_and_taken_back(join, name):
    client = join()
    for body, more in (("a", {}), ("b", {"colour": "blue"}), ("c", {})):
        client.ask("SEND", {"destination": f"/queue/{name}", **NEVER, **more}, body.encode())
    cron = {"AMQ_SCHEDULED_CRON": "0 9 29 2 *", "AMQ_SCHEDULED_ZONE": "Europe/Berlin"}
    client.ask("SEND", {"destination": f"/topic/{name}", **cron}, b"d")
    found = browse(client, name)
    assert set(found) == {"a", "b", "c", "d"}
    assert found["b"]["colour"] == "blue"
    assert found["b"]["original-destination"] == f"/queue/{name}"
    assert found["d"]["AMQ_SCHEDULED_CRON"] == "0 9 29 2 *"
    assert abs(int(found["a"]["AMQ_SCHEDULED_TIME"]) - time.time() * 1000 - 3_600_000) < 60_000
    assert len({message["scheduledJobId"] for message in found.values()}) == 4
    ask(client, "REMOVE", scheduledJobId=found["b"]["scheduledJobId"])
    assert set(browse(client, name)) == {"a", "c", "d"}
    soon = str(round(time.time() * 1000) + 7_200_000)
    assert set(browse(client, name, ACTION_START_TIME="0", ACTION_END_TIME=soon)) == {"a", "c"}
    ask(client, "REMOVEALL", ACTION_START_TIME="0", ACTION_END_TIME=soon)
    assert set(browse(client, name)) == {"d"}
    ask(client, "REMOVEALL")
    assert browse(client, name) == {}


def test_a_request_is_about_all_that_was_sent_before_it(join, name):
    """Also without a receipt: a client sends one and asks, one behind the other."""
    client = join()
    for number in range(10):
        client.send("SEND", {"destination": f"/queue/{name}.{number}", **NEVER}, b"%d" % number)
        assert str(number) in browse(client, name)
    client.send("SEND", {"destination": f"/queue/{name}.last", **NEVER}, b"last")
    ask(client, "REMOVEALL")
    assert browse(client, name) == {}


def test_one_that_has_come_before_is_taken_back(join, name):
    client = join()
    client.subscribe(f"/queue/{name}")
    often = {"AMQ_SCHEDULED_DELAY": 1, "AMQ_SCHEDULED_PERIOD": 150, "AMQ_SCHEDULED_REPEAT": -1}
    client.ask("SEND", {"destination": f"/queue/{name}", **often}, b"x")
    client.messages(2)
    job = client.read()["scheduledJobId"]
    other = join()
    ask(other, "REMOVE", scheduledJobId=job)
    client.sync()
    time.sleep(0.3)
    client.nothing()
    ask(other, "REMOVE", scheduledJobId=job)  # there is none: as it was to be


@pytest.mark.parametrize(
    ("headers", "code", "word"),
    [
        ({"AMQ_SCHEDULER_ACTION": "BROWSE"}, Code.MISSING_HEADER, "reply-to"),
        ({"AMQ_SCHEDULER_ACTION": "REMOVE"}, Code.MISSING_HEADER, "scheduledJobId"),
        ({"AMQ_SCHEDULER_ACTION": "STOP"}, Code.BAD_HEADER, "REMOVEALL"),
        ({}, Code.BAD_HEADER, "AMQ_SCHEDULER_ACTION"),
        ({"AMQ_SCHEDULER_ACTION": "REMOVEALL", "ACTION_END_TIME": "now"}, Code.BAD_HEADER, "ACTION_END_TIME"),
    ],
)
def test_a_request_that_is_none(join, headers, code, word):
    client = join()
    client.send("SEND", {"destination": WHERE, "receipt": "r", **headers})
    assert word in error(client, code, "r").body.decode()


def test_nobody_reads_requests(join):
    client = join()
    client.send("SUBSCRIBE", {"destination": WHERE, "id": "1", "receipt": "r"})
    error(client, Code.BAD_DESTINATION, "r")
