"""stomp.py, producer and consumer, in the three versions it speaks."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import stomp.exception

from tests.harness import Broker, scratch
from tests.harness.secrets import add_user, self_signed

from .stomppy import VERSIONS, WAIT, Client

every_version = pytest.mark.parametrize("version", list(VERSIONS))
with_nack = pytest.mark.parametrize("version", ["1.1", "1.2"])


@every_version
def test_connects_in_the_version_it_asked_for(broker: Broker, version: str):
    with Client(broker.port, version) as client:
        headers = client.box.connected.get(timeout=WAIT).headers
        assert headers["version"] == version
        assert headers["session"]


@every_version
@pytest.mark.parametrize("destination", ["/queue/{}", "{}", "/topic/{}"])
def test_sends_and_receives(broker: Broker, name: str, version: str, destination: str):
    destination = destination.format(name)
    with Client(broker.port, version) as consumer, Client(broker.port, version) as producer:
        consumer.subscribe(destination)
        for n in range(20):
            producer.send(destination, f"message {n}", number=n)
        for n in range(20):
            frame = consumer.message()
            assert (frame.body, frame.headers["number"]) == (f"message {n}", str(n))
            assert frame.headers["destination"] == destination
            assert frame.headers["subscription"] == "1"


@every_version
def test_unicode_in_body_and_headers(broker: Broker, name: str, version: str):
    text = "Grüße, 東京, 🐘\nзавтра"
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", text, stadt="東京 – Ελλάδα")
        frame = client.message()
        assert frame.body == text
        assert frame.headers["stadt"] == "東京 – Ελλάδα"


@with_nack
def test_colons_newlines_and_backslashes_in_header_values(broker: Broker, name: str, version: str):
    value = "a:b\\c\nd\\n"
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", "x", odd=value)
        assert client.message().headers["odd"] == value


@every_version
def test_binary_body_with_every_octet(broker: Broker, name: str, version: str):
    body = bytes(range(256)) * 300 + b"\0\0\n\n\0"
    with Client(broker.port, version, auto_decode=False) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", body)
        assert client.message().body == body


@pytest.mark.parametrize("options", [{}, {"binary_mode": True}], ids=["text", "binary"])
@pytest.mark.parametrize("size", [10, 1_500_000, 30_000_000])
def test_any_size_over_websocket(broker: Broker, name: str, options: dict[str, bool], size: int):
    """One WebSocket message each."""
    body = "Grüße 1" * (size // 7)
    with Client(broker.ws_port, websocket=True, **options) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", body)
        # stomp.py masks and joins 30 MB in Python: seconds on a quiet machine, many on a busy one.
        assert hash(client.message(within_s=120.0).body) == hash(body)


@every_version
def test_ack_auto_leaves_nothing_behind(broker: Broker, name: str, version: str):
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="auto")
        client.send(f"/queue/{name}", "once")
        assert client.message().body == "once"
        client.drop()
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}")
        client.nothing()


@every_version
def test_ack_client_is_cumulative(broker: Broker, name: str, version: str):
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client")
        for n in range(5):
            client.send(f"/queue/{name}", str(n))
        frames = [client.message() for _ in range(5)]
        client.ack(frames[2])
        client.drop()
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client")
        again = [client.message() for _ in range(2)]
        assert [frame.body for frame in again] == ["3", "4"]
        assert {frame.headers.get("redelivered") for frame in again} == {"true"}
        client.nothing()
        client.ack(again[1])


@with_nack
def test_ack_client_individual_settles_one(broker: Broker, name: str, version: str):
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client-individual")
        for n in range(4):
            client.send(f"/queue/{name}", str(n))
        frames = [client.message() for _ in range(4)]
        client.ack(frames[3])
        client.ack(frames[1])
        client.drop()
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client-individual")
        again = [client.message() for _ in range(2)]
        assert [frame.body for frame in again] == ["0", "2"]
        for frame in again:
            client.ack(frame)
        client.nothing()


@with_nack
def test_nack_brings_it_back_and_then_to_the_dead_letter_queue(tmp_path: Path, version: str):
    settings = {"engine.address.max_delivery_attempts": 2, "engine.address.dead_letter_address": "dead"}
    with Broker(tmp_path, settings) as broker, Client(broker.port, version) as client:
        client.subscribe("/queue/work", "w", ack="client-individual")
        client.subscribe("/queue/dead", "d")
        client.send("/queue/work", "poison")
        first = client.message()
        assert first.headers.get("redelivered", "false") == "false"
        client.nack(first)
        second = client.message()
        assert (second.body, second.headers["redelivered"], second.headers["subscription"]) == ("poison", "true", "w")
        client.nack(second)
        dead = client.message()
        assert (dead.body, dead.headers["subscription"]) == ("poison", "d")


@every_version
def test_transaction_is_seen_at_commit_and_never_after_abort(broker: Broker, name: str, version: str):
    with Client(broker.port, version) as consumer, Client(broker.port, version) as client:
        consumer.subscribe(f"/queue/{name}")
        aborted = client.stomp.begin()
        client.stomp.send(f"/queue/{name}", "aborted", transaction=aborted)
        client.stomp.abort(aborted)
        committed = client.stomp.begin()
        for n in range(3):
            client.stomp.send(f"/queue/{name}", f"committed {n}", transaction=committed)
        client.nothing()
        consumer.nothing()
        client.stomp.commit(committed, receipt="committed")
        client.receipt("committed")
        assert [consumer.message().body for _ in range(3)] == [f"committed {n}" for n in range(3)]
        consumer.nothing()


@with_nack
def test_ack_in_a_transaction_counts_at_commit_only(broker: Broker, name: str, version: str):
    with Client(broker.port, version) as client:
        client.send(f"/queue/{name}", "task")
        client.subscribe(f"/queue/{name}", ack="client-individual")
        first = client.message()
        transaction = client.stomp.begin()
        client.ack(first, transaction=transaction)
        client.stomp.abort(transaction, receipt="aborted")
        client.receipt("aborted")
        client.drop()
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client-individual")
        again = client.message()
        assert (again.body, again.headers["redelivered"]) == ("task", "true")
        transaction = client.stomp.begin()
        client.ack(again, transaction=transaction)
        client.stomp.commit(transaction, receipt="committed")
        client.receipt("committed")
        client.drop()
    with Client(broker.port, version) as client:
        client.subscribe(f"/queue/{name}")
        client.nothing()


@every_version
def test_disconnect_receipt_says_that_everything_before_it_has_arrived(broker: Broker, name: str, version: str):
    with Client(broker.port, version) as producer:
        for n in range(200):
            producer.stomp.send(f"/queue/{name}", str(n), persistent="true")
        producer.stomp.disconnect(receipt="last")
        producer.receipt("last")
    with Client(broker.port, version) as consumer:
        consumer.subscribe(f"/queue/{name}")
        assert [consumer.message().body for _ in range(200)] == [str(n) for n in range(200)]


@with_nack
def test_heart_beats_keep_a_silent_connection_alive_both_ways(broker: Broker, name: str, version: str):
    with Client(broker.port, version, heartbeats=(500, 500)) as client:
        client.subscribe(f"/queue/{name}")
        end = time.monotonic() + 2.5
        with pytest.raises(queue.Empty):
            client.box.messages.get(timeout=end - time.monotonic())
        assert client.box.beats >= 4
        assert client.box.beat_timeouts == 0
        assert client.stomp.is_connected()
        client.send(f"/queue/{name}", "still here")
        assert client.message().body == "still here"


@every_version
def test_durable_topic_subscription_keeps_what_came_meanwhile(broker: Broker, name: str, version: str):
    durable = {"durable-subscription-name": "news"}
    with Client(broker.port, version, client_id=name) as client:
        client.subscribe(f"/topic/{name}", **durable)
    with Client(broker.port, version) as producer:
        producer.send(f"/topic/{name}", "while away", persistent="true")
    with Client(broker.port, version, client_id=name) as client:
        client.subscribe(f"/topic/{name}", **durable)
        assert client.message().body == "while away"
        client.stomp.unsubscribe(id="1", headers={**durable, "receipt": "gone"})
        client.receipt("gone")
    with Client(broker.port, version) as producer:
        producer.send(f"/topic/{name}", "nobody wants this", persistent="true")
    with Client(broker.port, version, client_id=name) as client:
        client.subscribe(f"/topic/{name}", **durable)
        client.nothing()
        client.stomp.unsubscribe(id="1", headers={**durable, "receipt": "gone"})
        client.receipt("gone")


def test_error_frame_names_what_to_change(broker: Broker, name: str):
    with Client(broker.port) as client:
        client.stomp.subscribe(f"/queue/{name}", "1", selector="colour = ", receipt="never")
        error = client.box.errors.get(timeout=WAIT)
        assert error.headers["message"].startswith("Invalid selector")
        assert error.headers["receipt-id"] == "never"
        assert client.box.gone.wait(WAIT)


def test_messages_travel_between_versions(broker: Broker, name: str):
    """A header needs escapes in 1.2, fewer in 1.1 and none in 1.0."""
    with Client(broker.port, "1.2") as producer:
        for version in VERSIONS:
            with Client(broker.port, version) as consumer:
                consumer.subscribe(f"/queue/{name}")
                producer.send(f"/queue/{name}", version, path="C:\\temp")
                frame = consumer.message()
                assert (frame.body, frame.headers["path"]) == (version, "C:\\temp")


@pytest.fixture(scope="module")
def guarded(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker with a user, on plain and on TLS ports."""
    with scratch(request, "guarded") as folder:
        certificate, key = self_signed(folder)
        broker = Broker(folder, {"edge.tls_cert_file": certificate, "edge.tls_key_file": key}, tls=True)
        add_user(broker, "alice", "open sesame")
        with broker:
            yield broker


@every_version
def test_login_with_the_right_passcode(guarded: Broker, name: str, version: str):
    with Client(guarded.port, version, login="alice", passcode="open sesame") as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", "in")
        assert client.message().body == "in"


def test_user_added_while_the_broker_runs_can_log_in(guarded: Broker, name: str):
    add_user(guarded, "bob", "Passwörter: 東京")
    with Client(guarded.port, login="bob", passcode="Passwörter: 東京") as client:
        client.send(f"/queue/{name}", "in")


@every_version
def test_tls(guarded: Broker, name: str, version: str):
    ca = guarded.settings["edge.tls_cert_file"]
    with Client(guarded.tls_port, version, login="alice", passcode="open sesame", ca=ca) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", "secret " * 10_000)
        assert client.message().body == "secret " * 10_000


def test_certificate_that_is_not_trusted_is_the_clients_refusal(guarded: Broker, tmp_path: Path):
    other, _ = self_signed(tmp_path, "other")
    with pytest.raises(stomp.exception.ConnectFailedException):
        Client(guarded.tls_port, login="alice", passcode="open sesame", ca=str(other))
    # and the next client is served as if nothing had happened
    ca = guarded.settings["edge.tls_cert_file"]
    Client(guarded.tls_port, login="alice", passcode="open sesame", ca=ca).close()


# Failed logins come last: after some of them the broker lets everybody at this address wait.


@pytest.mark.parametrize(
    "version, login, passcode", [("1.0", "alice", "wrong"), ("1.1", "mallory", "open sesame"), ("1.2", None, None)]
)
def test_anything_else_is_refused(guarded: Broker, version: str, login: str | None, passcode: str | None):
    client = Client(guarded.port, version, login=login, passcode=passcode, wait=False)
    error = client.box.errors.get(timeout=WAIT)
    assert error.headers["message"].startswith("Login failed")
    assert client.box.gone.wait(WAIT)
    assert client.box.connected.empty()


def test_connect_call_raises_for_a_wrong_passcode(guarded: Broker):
    with pytest.raises(stomp.exception.ConnectFailedException):
        Client(guarded.port, login="alice", passcode="wrong")
