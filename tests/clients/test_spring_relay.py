"""Sessions as Spring's StompBrokerRelay has them: one shared connection of the application, that sends and listens for
broadcasts of users, and one for each browser, whose frames it hands on with the names that Spring gives.

Replayed as its TCP client writes them (STOMP 1.1 and 1.2 offered, heart-beats as line feeds between frames,
`/user/queue/x` resolved to `/queue/x-user<session>`), on ports of RabbitMQ's and Classic's dialect.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import Broker, Client, scratch
from tests.harness.broker import free_ports

DIALECTS = ("rabbitmq", "activemq")
REGISTRY, UNRESOLVED = "/topic/simp-user-registry", "/topic/unresolved-user-destination"
CONNECT = {"accept-version": "1.1,1.2", "heart-beat": "10000,10000", "login": "guest", "passcode": "guest", "host": "/"}


@pytest.fixture(scope="module")
def ports(request: pytest.FixtureRequest) -> Iterator[dict[str, int]]:
    found = dict(zip(DIALECTS, free_ports(len(DIALECTS)), strict=True))
    settings: dict[str, object] = {}
    for dialect, port in found.items():
        settings |= {f"acceptors.{dialect}.port": port, f"acceptors.{dialect}.dialect": dialect}
    with scratch(request, "relay") as folder, Broker(folder, settings) as broker:
        yield found
        assert "Traceback" not in broker.log()


def relayed(port: int) -> Client:
    """A connection that the relay has opened; the first frame of a browser waits for its CONNECTED."""
    client = Client(port, "1.2")
    client.send("STOMP", CONNECT)
    connected = client.expect("CONNECTED")
    assert connected["version"] == "1.2" and connected["heart-beat"].count(",") == 1
    client.raw(b"\n")
    return client


@pytest.mark.parametrize("dialect", DIALECTS)
def test_users_of_two_servers_reach_each_other(ports: dict[str, int], name: str, dialect: str):
    port = ports[dialect]
    with relayed(port) as system, relayed(port) as other, relayed(port) as ada, relayed(port) as bob:
        for server in (system, other):
            server.send("SUBSCRIBE", {"id": "registry", "destination": REGISTRY})
            server.send("SUBSCRIBE", {"id": "unresolved", "destination": UNRESOLVED})
        ada.send("SUBSCRIBE", {"id": "sub-0", "destination": f"/topic/{name}", "ack": "auto"})
        ada.send("SUBSCRIBE", {"id": "sub-1", "destination": f"/queue/answers-user{name}a", "ack": "auto"})
        bob.send("SUBSCRIBE", {"id": "sub-0", "destination": f"/topic/{name}", "ack": "auto"})
        for client in (system, other, ada, bob):
            client.sync()
        head = {"content-type": "application/json", "content-length": "9"}
        system.send("SEND", {**head, "destination": REGISTRY}, b'{"a":"b"}')
        for server in (system, other):
            (told,) = server.messages(1)
            assert (told["subscription"], told["content-type"], told.body) == (
                "registry",
                "application/json",
                b'{"a":"b"}',
            )
        bob.send("SEND", {"destination": f"/topic/{name}", "receipt": "1"}, b"hello all")
        assert [client.messages(1)[0]["subscription"] for client in (ada,)] == ["sub-0"]
        frames = [bob.read() for _ in range(2)]
        assert {frame.command for frame in frames} == {"RECEIPT", "MESSAGE"}
        other.send(
            "SEND",
            {**head, "destination": UNRESOLVED, "original-destination": f"/user/{name}a/queue/answers"},
            b'{"a":"b"}',
        )
        (asked,) = system.messages(1)
        assert asked["original-destination"] == f"/user/{name}a/queue/answers"
        system.send("SEND", {"destination": f"/queue/answers-user{name}a", "subscription": "forged"}, b"for you")
        (answer,) = ada.messages(1)
        assert (answer["subscription"], answer["destination"], answer.body) == (
            "sub-1", f"/queue/answers-user{name}a", b"for you",
        )  # fmt: skip
        ada.raw(b"\n\n")
        ada.send("UNSUBSCRIBE", {"id": "sub-0"})
        ada.send("DISCONNECT", {"receipt": "bye"})
        ada.expect("RECEIPT", {"receipt-id": "bye"})
        ada.ended()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_browser_that_is_cut_off_leaves_nothing_behind(ports: dict[str, int], name: str, dialect: str):
    """What the relay sends for it afterwards is gone, and the shared connection goes on."""
    with relayed(ports[dialect]) as system:
        browser = relayed(ports[dialect])
        browser.send("SUBSCRIBE", {"id": "sub-0", "destination": f"/topic/{name}"})
        browser.sync()
        browser.close()
        system.send("SEND", {"destination": f"/topic/{name}", "receipt": "1"}, b"nobody")
        system.expect("RECEIPT", {"receipt-id": "1"})
        system.raw(b"\n")
        system.sync()
