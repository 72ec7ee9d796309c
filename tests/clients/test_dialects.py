"""stomp.py and @stomp/stompjs on ports of RabbitMQ's and ActiveMQ's dialect, used as their applications use them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import Broker, scratch
from tests.harness.broker import free_ports

from .stomppy import VERSIONS, Client
from .test_stompjs import SCENARIOS, modules, verdicts_of_node

DIALECTS = ("rabbitmq", "activemq")
every_version = pytest.mark.parametrize("version", list(VERSIONS))
__all__ = ["modules"]


@pytest.fixture(scope="module")
def ports(request: pytest.FixtureRequest) -> Iterator[dict[str, int]]:
    """By dialect; both of one broker."""
    found = dict(zip(DIALECTS, free_ports(2), strict=True))
    settings: dict[str, object] = {}
    for dialect, port in found.items():
        settings |= {f"acceptors.{dialect}.port": port, f"acceptors.{dialect}.dialect": dialect}
    with scratch(request, "dialects") as folder, Broker(folder, settings) as broker:
        yield found
        assert "Traceback" not in broker.log()


@every_version
def test_rpc_of_rabbitmq(ports: dict[str, int], name: str, version: str):
    """A worker that answers at reply-to, a requester that never subscribes: as RabbitMQ's own examples do it."""
    port = ports["rabbitmq"]
    with Client(port, version) as worker, Client(port, version) as requester:
        worker.subscribe(f"/queue/{name}", ack="client-individual" if version != "1.0" else "client")
        for number in range(3):
            headers = {"reply-to": "/temp-queue/answers", "correlation-id": str(number)}
            requester.send(f"/queue/{name}", f"{number}", **headers)
            asked = worker.message()
            worker.send(asked.headers["reply-to"], f"{number}!", **{"correlation-id": asked.headers["correlation-id"]})
            worker.ack(asked)
            answer = requester.message()
            assert (answer.body, answer.headers["correlation-id"]) == (f"{number}!", str(number))
            assert answer.headers["subscription"] == "/temp-queue/answers"


@every_version
def test_exchanges_of_rabbitmq(ports: dict[str, int], name: str, version: str):
    with Client(ports["rabbitmq"], version) as client:
        client.subscribe(f"/exchange/amq.topic/{name}.#")
        client.send(f"/topic/{name}.a.b", "x", persistent="true")
        frame = client.message()
        assert (frame.body, frame.headers["redelivered"]) == ("x", "false")


@every_version
def test_destinations_of_activemq(ports: dict[str, int], name: str, version: str):
    """By what a client of Classic dispatches on: the destination of each MESSAGE."""
    port = ports["activemq"]
    with Client(port, version) as one, Client(port, version) as other:
        one.subscribe(f"/queue/Consumer.A.VirtualTopic.{name}")
        other.subscribe(f"/queue/{name}")
        one.send(f"/queue/{name},/topic/VirtualTopic.{name}", "x")
        assert one.message().headers["destination"] == f"/queue/Consumer.A.VirtualTopic.{name}"
        assert other.message().headers["destination"] == f"/queue/{name}"


@every_version
def test_a_temporary_queue_of_activemq(ports: dict[str, int], name: str, version: str):
    port = ports["activemq"]
    with Client(port, version) as worker, Client(port, version) as requester:
        worker.subscribe(f"/queue/{name}")
        requester.subscribe("/temp-queue/answers")
        requester.send(f"/queue/{name}", "?", **{"reply-to": "/temp-queue/answers"})
        worker.send(worker.message().headers["reply-to"], "!")
        answer = requester.message()
        assert (answer.body, answer.headers["destination"]) == ("!", "/temp-queue/answers")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stompjs_in_node(modules: None, request: pytest.FixtureRequest, dialect: str):
    """All that it does with a port of our own names it does here as well."""
    found = verdicts_of_node(request, {"edge.dialect": dialect})
    assert {name: why for name, why in found.items() if why} == {}
    assert set(found) == set(SCENARIOS)
