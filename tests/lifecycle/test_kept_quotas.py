"""Quotas of what is kept, in a real broker of one process and of several: refused by name, live, and free again when it
has gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.harness import Broker, Client, scratch
from tests.harness import until as until_in_time
from tests.harness.secrets import add_user

ADA = {"login": "ada", "passcode": "a long passcode", "client-id": "ada"}
EVE = {"login": "eve", "passcode": "another long passcode", "client-id": "eve"}
PROCESSES = pytest.mark.parametrize("processes", [0, 2], ids=["one process", "edge processes"])


@contextmanager
def serving(request: pytest.FixtureRequest, processes: int, quotas: str) -> Iterator[Broker]:
    with scratch(request, "kept") as folder:
        broker = Broker(folder / "broker", {"edge.processes": processes})
        broker.folder.mkdir()
        file = folder / "broker.toml"
        file.write_text(quotas)
        command = broker.command()
        broker.command = lambda: [*command, "--config", str(file)]  # type: ignore[method-assign]
        add_user(broker, "ada", ADA["passcode"])
        add_user(broker, "eve", EVE["passcode"])
        with broker:
            yield broker
            log = broker.log()
        assert "Traceback" not in log


@pytest.fixture(scope="module", params=[0, 2], ids=["one process", "edge processes"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    entries = (
        '[edge.quotas."host:/"]\nmax_queues = 6\nmax_bytes = 200000\n'
        '[edge.quotas."user:*"]\nmax_durable_subscriptions = 2\n'
    )
    with serving(request, request.param, entries) as broker:
        yield broker


def until(condition: Callable[[], object], why: str) -> None:
    """A look takes a twentieth of the time at most: one of 2 s, on a busy machine, is followed by a pause of 40."""
    until_in_time(condition, why, 120)


def refused(
    broker: Broker, headers: dict[str, str], what: str, body: bytes = b"", command: str = "SUBSCRIBE", who: Any = ADA
) -> bool:
    """Is it refused by that name now."""
    with Client(broker.port) as client:
        client.connect(who)
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
        eve.connect(EVE)
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


def sent(broker: Broker, queue: str, who: Any, what: str = "-", body: bytes = b"x") -> bool:
    """Is it taken; if not, it is refused by that name."""
    return not refused(broker, {"destination": f"/queue/{queue}", "persistent": "true"}, what, body, "SEND", who)


@PROCESSES
def test_a_user_has_so_many_queues_and_bytes_in_those_that_he_has_made(
    request: pytest.FixtureRequest, processes: int
) -> None:
    entry = '[edge.quotas."user:ada"]\nmax_queues = 2\nmax_bytes = 200000\n'
    full, body = "'adas1' takes nothing: the queues of who has made it", b"x" * 60_000
    with serving(request, processes, entry) as broker:
        assert sent(broker, "eves", EVE)
        made = 0

        def another() -> bool:
            nonlocal made
            made += 1
            assert made < 2000
            return not sent(broker, f"adas{made}", ADA, "user:ada has 2 queues at most")

        until(another, "there is no end of queues")
        assert sent(broker, "adas1", ADA) and sent(broker, "eves", ADA), "those that are there are sent to"
        assert sent(broker, "eves2", EVE), "others make some"
        until(lambda: not sent(broker, "adas1", EVE, full, body), "others fill it without end")
        until(lambda: not sent(broker, "adas1", ADA, full), "it is refused to others alone")
        assert sent(broker, "eves", ADA) and sent(broker, "eves", EVE), "she sends to others, and they to theirs"
        until(lambda: any("refused_quota" in name and value for name, value in broker.metrics().items()), "no metric")
        broker.stop()
        broker.start()
        until(lambda: not sent(broker, "adas1", EVE, full), "who has made it is forgotten")
        with Client(broker.port) as client:
            client.connect(ADA)
            client.subscribe("/queue/adas1", ack="auto")

            def taken_away() -> bool:
                with suppress(TimeoutError):
                    while True:
                        client.read(0.5)
                return sent(broker, "adas1", EVE, full)

            until(taken_away, "it stays full")
