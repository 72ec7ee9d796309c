"""Messages to `ActiveMQ.Statistics.…`: maps of what there is."""

from __future__ import annotations

import json

import pytest

from broker.core.errors import Code

from ..checks import error

REPLY = "/temp-queue/numbers"


def ask(client, about):
    """Name → value."""
    client.ask("SEND", {"destination": f"/queue/ActiveMQ.Statistics.{about}", "reply-to": REPLY, "correlation-id": "c"})
    answer = client.expect("MESSAGE", {"subscription": REPLY, "correlation-id": "c", "transformation": "jms-map-json"})
    found = {}
    for entry in json.loads(answer.body)["map"]["entry"]:
        name, value = entry["string"] if "long" not in entry else (entry["string"], entry["long"])
        found[name] = value
    return found


def test_of_a_queue(join, name):
    client = join()
    nothing = {"destinationName": f"queue://{name}", "size": 0, "inflightCount": 0, "consumerCount": 0}
    assert ask(client, f"Destination{name}") == nothing
    for body in (b"a", b"b"):
        client.publish(f"/queue/{name}", body)
    client.sync()
    assert ask(client, f"Destination{name}") == {**nothing, "size": 2}
    client.subscribe(f"/queue/{name}", ack="client", **{"activemq.prefetchSize": 1})
    client.read()
    assert ask(client, f"Destination{name}") == {**nothing, "size": 2, "inflightCount": 1, "consumerCount": 1}


def test_of_the_broker(join, name):
    client = join()
    before = ask(client, "Broker")
    assert {"brokerName", "size", "enqueueCount", "dequeueCount", "memoryLimit", "storeUsage"} <= set(before)
    client.publish(f"/queue/{name}", b"x")
    client.sync()
    assert ask(client, "Broker")["enqueueCount"] > before["enqueueCount"]


def test_its_subscription_may_name_the_form(join, name):
    client = join()
    client.subscribe(REPLY, id=REPLY, transformation="jms-map-json")
    assert ask(client, f"Destination{name}")["size"] == 0


@pytest.mark.parametrize(
    ("about", "headers", "code"),
    [
        ("Broker", {}, Code.MISSING_HEADER),
        ("Subscription", {"reply-to": REPLY}, Code.BAD_DESTINATION),
        ("Destination", {"reply-to": REPLY}, Code.BAD_DESTINATION),
        ("Destinationa.>", {"reply-to": REPLY}, Code.BAD_DESTINATION),
    ],
)
def test_a_request_that_is_none(join, about, headers, code):
    client = join()
    client.send("SEND", {"destination": f"/queue/ActiveMQ.Statistics.{about}", "receipt": "r", **headers})
    error(client, code, "r")
