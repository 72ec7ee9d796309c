"""Logins: guessing is slow and tells nothing, secrets never reach the log, and the others do not suffer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, scratch

from .innocent import Innocent

SECRET = "correct-horse-battery-staple"
GUESS = "tr0ub4dor&3-guess"
CREDENTIALS: dict[str, object] = {"login": "ann", "passcode": SECRET}


@pytest.fixture(scope="module")
def broker(request) -> Iterator[Broker]:
    with scratch(request, "abuse") as folder:
        broker = Broker(folder, {"edge.login_timeout_s": 20}, level="DEBUG")
        broker.add_user("ann", SECRET)
        with broker:
            broker.metrics()
            yield broker
            log = broker.log()
            assert "Traceback" not in log
            assert "CONNECT" in log  # frames are logged at this level,
            assert SECRET not in log and GUESS not in log  # but no passcode is


@pytest.fixture(autouse=True)
def innocent(broker) -> Iterator[Innocent]:
    client = Innocent(broker.port, "/queue/innocent.auth", CREDENTIALS)
    yield client
    client.check()


def attempt(broker, login, passcode, source="127.0.0.9"):
    """Seconds until the ERROR came."""
    with Client(broker.port, source=source, timeout=30) as client:
        start = time.monotonic()
        client.send("CONNECT", {"accept-version": "1.2", "host": "x", "login": login, "passcode": passcode})
        frame = client.expect("ERROR")
        took = time.monotonic() - start
        assert frame["error-code"] == str(Code.LOGIN_FAILED.number)
        client.ended()
        return took, frame.body


def test_an_unknown_user_looks_like_a_wrong_passcode(broker):
    """Same text but for the name that was given. That it costs as many checks is counted in tests/unit/edge: seconds of
    a busy machine would say nothing. Fresh addresses: no back-off between the tries."""
    known, unknown = attempt(broker, "ann", GUESS, "127.0.1.1")[1], attempt(broker, "nobody", GUESS, "127.0.2.1")[1]
    assert known.replace(b"ann", b"nobody") == unknown


def test_guessing_is_slowed_down(broker, counted):
    """The more failures from one address, the longer the answer takes; others do not wait."""
    tries = [attempt(broker, "ann", f"{GUESS}{n}")[0] for n in range(6)]
    assert sum(tries[3:]) > 2 * sum(tries[:3]) or sum(tries) > 1.0, tries
    start = time.monotonic()
    with Client(broker.port, source="127.0.0.10") as other:
        other.connect(CREDENTIALS)
    assert time.monotonic() - start < 1.0
    counted("login_failed", 6)


def test_a_storm_of_logins_does_not_stop_the_broker(broker):
    """100 wrong logins at once, each from an address of its own: the innocent's rounds stay short."""
    clients = [Client(broker.port, source=f"127.0.3.{n + 1}", timeout=30) for n in range(100)]
    for number, client in enumerate(clients):
        client.send("CONNECT", {"accept-version": "1.2", "host": "x", "login": "ann", "passcode": f"{GUESS}{number}"})
    for client in clients:
        assert client.read().command == "ERROR"
        client.close()


def test_known_logins_are_fast(broker):
    """A crowd of clients with the same credentials reconnects: argon2 is not run for each."""
    start = time.monotonic()
    for _ in range(100):
        with Client(broker.port) as client:
            client.connect(CREDENTIALS)
    assert time.monotonic() - start < 2.0


@pytest.mark.parametrize("login", ["ann\\n", "", "a" * 5000, "../ann", "ann:", "ann "])
def test_odd_logins_are_only_wrong(broker, login):
    attempt(broker, login, GUESS, f"127.0.4.{len(login) % 250 + 1}")
