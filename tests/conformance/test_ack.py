"""C43 … C45, C48 … C50, C52: ACK and NACK, what comes back and to whom."""

from __future__ import annotations

import time

import pytest

from broker.core.errors import Code
from tests.harness.waiting import PATIENCE_S

from .checks import bodies, error, every_version, since_11

SIX = [b"0", b"1", b"2", b"3", b"4", b"5"]


def load(client, destination, count, **headers):
    for number in range(count):
        client.publish(destination, b"%d" % number, **headers)


@pytest.fixture
def left(join, queue):
    """What is still in the queue: (body, redelivered) of each message."""

    def left(version="1.2", destination=None):
        reader = join(version)
        pairs = {"id": "left", "destination": destination or queue, "ack": "client"}
        reader.send("SUBSCRIBE", pairs)
        found = [(m.body, m.get("redelivered", "false")) for m in reader.sync()]
        reader.ask("DISCONNECT")
        return found

    return left


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_C43_client_mode_is_cumulative(join, queue, left, version, persistent):
    client = join(version)
    client.subscribe(queue, ack="client")
    load(client, queue, 5, persistent=persistent)
    client.ack(client.messages(5)[2])
    client.ask("DISCONNECT")
    assert left() == [(b"3", "true"), (b"4", "true")]


@every_version
def test_C43_cumulative_within_its_own_subscription_only(join, queue, left, version):
    client = join(version)
    client.subscribe(queue + ".a", id="a", ack="client")
    client.subscribe(queue + ".b", id="b", ack="client")
    load(client, queue + ".a", 2)
    load(client, queue + ".b", 2)
    got = client.messages(4)
    client.ack(next(m for m in got if m["subscription"] == "b" and m.body == b"1"))
    client.ask("DISCONNECT")
    assert [body for body, _ in left(destination=queue + ".a")] == [b"0", b"1"]
    assert left(destination=queue + ".b") == []


@since_11
def test_C44_individual_mode_acknowledges_one_only(join, queue, left, version):
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    load(client, queue, 4)
    client.ack(client.messages(4)[2])
    client.ask("DISCONNECT")
    assert [body for body, _ in left()] == [b"0", b"1", b"3"]


@every_version
@pytest.mark.parametrize("mode", ["client", "client-individual"])
@pytest.mark.parametrize("end", ["disconnect", "lost", "unsubscribe"])
def test_C45_unacknowledged_messages_go_back_to_the_head(join, queue, left, version, mode, end):
    client, writer = join(version), join(version)
    client.subscribe(queue, ack=mode, prefetch_count=3)
    load(writer, queue, 6)
    assert bodies(client.messages(3)) == [b"0", b"1", b"2"]
    if end == "disconnect":
        client.ask("DISCONNECT")
    elif end == "unsubscribe":
        client.ask("UNSUBSCRIBE", {"id": "1"})
    else:
        client.close()
        writer.sync()
    found = left()
    deadline = time.monotonic() + PATIENCE_S
    while end == "lost" and [body for body, _ in found] != SIX and time.monotonic() < deadline:
        found = left()  # the broker had not seen the end of the connection when that one came
    assert [body for body, _ in found] == SIX
    assert [flag for _, flag in found[:3]] == ["true"] * 3
    if end != "lost":
        assert [flag for _, flag in found[3:]] == ["false"] * 3


@every_version
@pytest.mark.parametrize("end", ["disconnect", "disconnect without receipt", "unsubscribe"])
def test_taking_one_message_at_a_time_and_going_dead_letters_nothing(join, queue, version, end):
    """A script that takes one message each time it runs is handed the rest ahead, more often than
    max_delivery_attempts."""
    writer = join(version)
    load(writer, queue, 14)
    client = None
    for number in range(14):
        client = client or join(version)
        client.subscribe(queue, ack="client-individual" if version != "1.0" else "client")
        message = client.messages(14 - number)[0]
        assert message.body == b"%d" % number
        if number:
            assert message["redelivered"] == "true" and "delivery-count" not in message.headers
        client.ack(message, receipt="done")
        client.expect("RECEIPT")
        if end == "unsubscribe":
            client.ask("UNSUBSCRIBE", {"id": "1"})
        elif end == "disconnect":
            client = client.ask("DISCONNECT") and None
        else:
            client.send("DISCONNECT")
            client.ended()
            client = None


@every_version
def test_redelivered_is_said_only_of_what_was_delivered_before(join, queue, version):
    client, other = join(version), join(version)
    other.publish(queue, b"x")
    client.subscribe(queue, ack="client")
    assert "redelivered" not in client.read().headers
    client.ask("UNSUBSCRIBE", {"id": "1"})
    other.subscribe(queue, ack="client")
    assert other.read()["redelivered"] == "true"


def test_C48_v10_ack_by_message_id(join, queue, left):
    client = join("1.0")
    client.ask("SUBSCRIBE", {"destination": queue, "ack": "client"})
    load(client, queue, 1)
    client.ask("ACK", {"message-id": client.read()["message-id"]})
    client.ask("DISCONNECT")
    assert left() == []


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize("missing", ["message-id", "subscription"])
def test_C49_v11_ack_and_nack_need_message_id_and_subscription(join, queue, command, missing):
    client = join("1.1")
    client.subscribe(queue, ack="client")
    load(client, queue, 1)
    headers = {"message-id": client.read()["message-id"], "subscription": "1", "receipt": "r"}
    del headers[missing]
    client.send(command, headers)
    assert missing.encode() in error(client, Code.MISSING_HEADER, "r").body


@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_C49_v11_the_subscription_must_be_the_right_one(join, queue, command):
    client = join("1.1")
    client.subscribe(queue, id="a", ack="client")
    client.subscribe(queue + ".b", id="b", ack="client")
    load(client, queue, 1)
    message = client.read()
    client.send(command, {"message-id": message["message-id"], "subscription": "b", "receipt": "r"})
    error(client, Code.NO_SUCH_DELIVERY, "r")


@pytest.mark.parametrize("extra", [{}, {"transaction": "t"}], ids=["alone", "transaction"])
@every_version
def test_a_subscription_that_the_client_made_up_does_no_harm(join, queue, left, version, extra):
    """npm's stomp-client sends `undefined`, stomp.py invents a number."""
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    load(client, queue, 2)
    if extra:
        client.ask("BEGIN", extra)
    for message in client.messages(2):
        name = {"id": message["ack"]} if version == "1.2" else {"message-id": message["message-id"]}
        made_up = "undefined" if version == "1.1" or message.body == b"0" else "7"
        client.ask("ACK", {**name, "subscription": made_up, **extra})
    if extra:
        client.ask("COMMIT", extra)
    client.ask("DISCONNECT")
    assert left() == []


def test_C49_v11_a_subscription_may_be_called_undefined(join, queue):
    client = join("1.1")
    client.subscribe(queue, id="a", ack="client")
    client.subscribe(queue + ".b", id="undefined", ack="client")
    load(client, queue, 1)
    client.send("ACK", {"message-id": client.read()["message-id"], "subscription": "undefined", "receipt": "r"})
    error(client, Code.NO_SUCH_DELIVERY, "r")


def test_C48_v10_knows_no_subscription_header(join, queue, left):
    client = join("1.0")
    client.subscribe(queue, id="a", ack="client-individual")
    client.subscribe(queue + ".b", id="b", ack="client")
    load(client, queue, 2)
    for message in client.messages(2):
        client.ask("ACK", {"message-id": message["message-id"], "subscription": "b"})
    client.ask("DISCONNECT")
    assert left() == []


@every_version
@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize("extra", [{}, {"transaction": "t"}], ids=["alone", "transaction"])
def test_what_a_browser_was_shown_is_acknowledged_in_vain(join, queue, left, version, command, extra):
    client = join(version)
    load(client, queue, 1)
    client.subscribe(queue, ack="client", browser="true")
    message, end = client.messages(2)
    assert end["browser"] == "end"
    if version == "1.0" and command == "NACK":
        return  # there is none
    if extra:
        client.ask("BEGIN", extra)
    client.settle(command, message, receipt="a", **extra)
    client.expect("RECEIPT", {"receipt-id": "a"})
    if extra:
        client.ask("COMMIT", extra)
    client.ask("DISCONNECT")
    assert left() == [(b"0", "false")]


@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_C50_v12_ack_and_nack_need_the_id(join, queue, command):
    client = join()
    client.subscribe(queue, ack="client")
    load(client, queue, 1)
    message = client.read()
    client.send(command, {"message-id": message["message-id"], "subscription": "1", "receipt": "r"})
    error(client, Code.MISSING_HEADER, "r")


@every_version
@pytest.mark.parametrize("id", ["nonsense", "0-0-1", "", "-", "9" * 40, "a-b-c", "\u0661"])
def test_an_ack_of_something_unknown_is_an_error(join, queue, version, id):
    client = join(version)
    client.subscribe(queue, ack="client")
    name = "id" if version == "1.2" else "message-id"
    client.send("ACK", {name: id, "subscription": "1", "receipt": "r"})
    error(client, Code.NO_SUCH_DELIVERY, "r")


@every_version
def test_an_ack_of_a_number_never_delivered_is_an_error_and_settles_nothing(join, queue, left, version):
    client = join(version)
    client.subscribe(queue, ack="client")
    load(client, queue, 1)
    message = client.read()
    name = "id" if version == "1.2" else "message-id"
    handle, _, number = message["message-id"].rpartition("-")
    client.send("ACK", {name: f"{handle}-{int(number) + 1000}", "subscription": "1", "receipt": "r"})
    error(client, Code.NO_SUCH_DELIVERY, "r")
    assert left() == [(b"0", "true")]


@every_version
def test_an_ack_of_another_connections_message_is_an_error(join, queue, left, version):
    mine, thief = join(version), join(version)
    mine.subscribe(queue, ack="client")
    load(mine, queue, 1)
    message = mine.read()
    thief.subscribe(queue + ".b", ack="client")
    name = "id" if version == "1.2" else "message-id"
    thief.send("ACK", {name: message["message-id"], "subscription": "1", "receipt": "r"})
    error(thief, Code.NO_SUCH_DELIVERY, "r")
    mine.ack(message)
    mine.ask("DISCONNECT")
    assert left() == []


@every_version
def test_a_second_ack_of_the_same_message_is_an_error(join, queue, version):
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    load(client, queue, 1)
    message = client.read()
    client.ack(message)
    client.ack(message, receipt="again")
    error(client, Code.NO_SUCH_DELIVERY, "again")


@every_version
def test_an_ack_on_an_auto_subscription_is_an_error(join, queue, version):
    client = join(version)
    client.subscribe(queue, ack="auto")
    load(client, queue, 1)
    message = client.read()
    name = "id" if version == "1.2" else "message-id"
    client.send("ACK", {name: message["message-id"], "subscription": "1", "receipt": "r"})
    error(client, Code.NO_SUCH_DELIVERY, "r")


@since_11
def test_C52_nack_in_individual_mode_is_about_one_message(join, queue, version):
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    load(client, queue, 3)
    first, second, third = client.messages(3)
    client.nack(second)
    again = client.read()
    assert (again.body, again["redelivered"]) == (b"1", "true")
    for message in (first, third, again):
        client.ack(message)
    client.ask("DISCONNECT")


@since_11
def test_C52_nack_in_client_mode_is_cumulative(join, queue, left, version):
    client = join(version)
    client.subscribe(queue, ack="client")
    load(client, queue, 4)
    client.nack(client.messages(4)[2])
    again = client.messages(3)
    assert bodies(again) == [b"0", b"1", b"2"]
    assert {m["redelivered"] for m in again} == {"true"}
    client.ack(again[-1])
    client.ask("DISCONNECT")
    assert left() == []  # delivery order: 3 came before the three that came again


@every_version
def test_many_acks_in_one_write_with_receipts_in_order(join, queue, left, version):
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    load(client, queue, 30)
    cut, client.cut = client.cut, "joined"
    for number, message in enumerate(client.messages(30)):
        client.ack(message, receipt=f"a{number}")
    client.cut = cut
    assert [client.expect("RECEIPT")["receipt-id"] for _ in range(30)] == [f"a{n}" for n in range(30)]
    client.ask("DISCONNECT")
    assert left() == []


@since_11
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_nack_counts_and_then_dead_letters_with_the_origin(join, queue, name, version, persistent):
    """Ten deliveries (the default), then DLQ; from the first failure on a message says which delivery it is."""
    client = join(version)
    client.subscribe("DLQ", id="dead")
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, b"poison", persistent=persistent, kind="test", destination_type="ANYCAST")
    for attempt in range(1, 11):
        message = client.read()
        assert message["subscription"] == "1", message
        assert message.get("redelivered", "false") == ("true" if attempt > 1 else "false")
        assert message.get("delivery-count", "1") == str(attempt)
        client.nack(message)
    dead = client.read()
    assert (dead["subscription"], dead.body, dead["kind"]) == ("dead", b"poison", "test")
    assert dead["_AMQ_ORIG_ADDRESS"] == name
    assert dead["_AMQ_ORIG_QUEUE"] == name
    assert "_AMQ_ORIG_MESSAGE_ID" in dead.headers
    client.nothing()


@since_11
@pytest.mark.parametrize("first", [True, False])
def test_where_a_dead_letter_was_cannot_be_forged(join, queue, name, version, first):
    """Of two headers of one name the first counts: the broker's, wherever the client's stands."""
    client = join(version)
    client.subscribe("DLQ", id="dead", selector=f"_AMQ_ORIG_ADDRESS = '{name}' AND _AMQ_ORIG_QUEUE = '{name}'")
    client.subscribe(queue, ack="client-individual")
    forged = {"_AMQ_ORIG_ADDRESS": "forged", "_AMQ_ORIG_QUEUE": "forged", "_AMQ_ORIG_MESSAGE_ID": "forged"}
    plain = {"destination": queue}
    client.ask("SEND", forged | plain if first else plain | forged, b"x")
    client.nack(client.read(), requeue="false")
    dead = client.read()
    assert (dead["subscription"], dead["_AMQ_ORIG_ADDRESS"], dead["_AMQ_ORIG_QUEUE"]) == ("dead", name, name)
    assert dead["_AMQ_ORIG_MESSAGE_ID"] != "forged"


@since_11
def test_nack_with_requeue_false_dead_letters_at_once(join, queue, version):
    client = join(version)
    client.subscribe("DLQ", id="dead")
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, b"unwanted")
    client.nack(client.read(), requeue="false")
    dead = client.read()
    assert (dead["subscription"], dead.body) == ("dead", b"unwanted")


@since_11
def test_nack_with_a_delay_comes_back_later(join, queue, version):
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, b"later")
    message, start = client.read(), time.monotonic()
    client.nack(message, delay=150)
    assert client.read().body == b"later"
    assert time.monotonic() - start >= 0.14


@since_11
def test_nack_with_nonsense_is_an_error(join, queue, version):
    client = join(version)
    client.subscribe(queue, ack="client")
    client.publish(queue, b"x")
    client.nack(client.read(), requeue="perhaps", receipt="r")
    error(client, Code.BAD_HEADER, "r")


def test_v10_has_no_nack(join, queue):
    client = join("1.0")
    client.subscribe(queue, ack="client")
    client.publish(queue, b"x")
    client.nack(client.read(), receipt="r")
    error(client, Code.UNKNOWN_COMMAND, "r")
