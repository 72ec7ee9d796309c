"""Quotas of what is kept, in a real broker of one process and of several: refused by name, live, and free again when it
has gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import Broker, Client, scratch, until
from tests.harness.secrets import add_user

ADA = {"login": "ada", "passcode": "a long passcode", "client-id": "ada"}


@pytest.fixture(scope="module", params=[0, 2], ids=["one process", "edge processes"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with scratch(request, "kept") as folder:
        broker = Broker(folder / "broker", {"edge.processes": request.param})
        broker.folder.mkdir()
        file = folder / "broker.toml"
        file.write_text(
            '[edge.quotas."host:/"]\nmax_queues = 6\nmax_bytes = 200000\n'
            '[edge.quotas."user:*"]\nmax_durable_subscriptions = 2\n'
        )
        command = broker.command()
        broker.command = lambda: [*command, "--config", str(file)]  # type: ignore[method-assign]
        add_user(broker, "ada", ADA["passcode"])
        add_user(broker, "eve", "another long passcode")
        with broker:
            yield broker
            log = broker.log()
        assert "Traceback" not in log


def refused(broker: Broker, headers: dict[str, str], what: str, body: bytes = b"", command: str = "SUBSCRIBE") -> bool:
    """Is it refused by that name now."""
    with Client(broker.port) as client:
        client.connect(ADA)
        client.send(command, {**headers, "receipt": "r"}, body)
        answer = client.read(60)
        if answer.command == "RECEIPT":
            client.ask("DISCONNECT")
            return False
        assert answer.command == "ERROR" and answer["error-code"] == "1513" and what.encode() in answer.body, answer
        return True


def kept(broker: Broker) -> list[float]:
    """What metrics say that users have."""
    started = ("stomp_quota_kept{", 'limit="max_durable_subscriptions"')
    return [value for name, value in broker.metrics().items() if all(part in name for part in started)]


def durable(name: str) -> dict[str, str]:
    return {"destination": "/topic/news", "id": name, "durable-subscription-name": name}


def test_a_user_has_so_many_durable_subscriptions_whoever_is_connected(broker: Broker) -> None:
    for name in ("one", "two"):
        assert not refused(broker, durable(name), "-")
    until(lambda: 2.0 in kept(broker), "no metric tells of it")
    until(lambda: refused(broker, durable("three"), "user:ada has 2 durable subscriptions at most"), "it is let in")
    assert not refused(broker, durable("one"), "-"), "what is there is his"
    with Client(broker.port) as eve:
        eve.connect({"login": "eve", "passcode": "another long passcode", "client-id": "eve"})
        eve.ask("SUBSCRIBE", durable("three"))
        eve.ask("UNSUBSCRIBE", durable("three"))
    with Client(broker.port) as ada:
        ada.connect(ADA)
        ada.ask("UNSUBSCRIBE", durable("two"))
    until(lambda: not refused(broker, durable("four"), "user:ada"), "what has gone is not free")


def test_a_host_has_so_many_queues_and_bytes(broker: Broker) -> None:
    made = 0

    def another() -> bool:
        nonlocal made
        made += 1
        assert made < 200
        return refused(broker, {"destination": f"/queue/q{made}"}, "host:/ has 6 queues at most", b"x", "SEND")

    until(another, "there is no end of queues")
    assert not refused(broker, {"destination": "/queue/q1"}, "-", b"x", "SEND"), "one that is there is sent to"
    assert refused(broker, {"destination": "/topic/t", "id": "1"}, "host:/ has 6 queues at most")
    body = b"x" * 60_000
    until(lambda: refused(broker, {"destination": "/queue/q1"}, "host:/ has 200000 bytes at most", body, "SEND"), "-")
    with Client(broker.port) as client:
        client.connect(ADA)
        client.subscribe("/queue/q1", ack="auto")
        until(lambda: not refused(broker, {"destination": "/queue/q1"}, "host:/", b"x", "SEND"), "it stays full")
