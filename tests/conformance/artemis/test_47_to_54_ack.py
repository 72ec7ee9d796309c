"""Cases 47 to 54: acknowledgements, windows, negative acknowledgements, order."""

from __future__ import annotations

import pytest

from .checks import bodies, error, load, numbers, size_of


@pytest.mark.parametrize(("acknowledged", "left"), [(50, []), (49, [b"49"])])
def test_case_47_a_cumulative_acknowledgement(join, queue, acknowledged, left):
    client = join()
    load(client, queue, 50)
    client.subscribe(queue, ack="client", consumer_window_size=-1)
    client.ack(client.messages(50)[acknowledged - 1])
    client.ask("DISCONNECT")
    reader = join()
    reader.subscribe(queue)
    assert bodies(reader.sync()) == left


def test_case_48_every_second_message_acknowledged(join, queue):
    client = join()
    load(client, queue, 20)
    client.subscribe(queue, ack="client-individual", consumer_window_size=-1)
    for message in client.messages(20)[::2]:
        client.ack(message)
    client.ask("DISCONNECT")
    back = join()
    back.subscribe(queue)
    again = back.messages(10)
    assert bodies(again) == numbers(20)[1::2]
    assert {message["redelivered"] for message in again} == {"true"}
    back.nothing()


@pytest.mark.parametrize("id", ["unknown", "1,2", "0-1"])
def test_case_49_an_unknown_message(join, queue, id):
    client = join()
    client.publish(queue, b"x")
    client.subscribe(queue, ack="client")
    client.read()
    client.send("ACK", {"id": id, "receipt": "r"})
    error(client, "No such message", receipt="r")
    reader = join()
    reader.subscribe(queue)
    assert reader.read().body == b"x"


def test_case_49_the_wrong_subscription_in_stomp_11(join, queue):
    client = join("1.1")
    client.publish(queue, b"x")
    client.subscribe(queue, id="right", ack="client")
    message = client.read()
    client.send("ACK", {"message-id": message["message-id"], "subscription": "wrong", "receipt": "r"})
    error(client, "wrong", receipt="r")
    client.close()
    reader = join()
    reader.subscribe(queue)
    assert reader.read().body == b"x"


def test_case_50_the_ack_header_is_there_only_when_it_is_needed(join, queue):
    client = join()
    client.subscribe(queue + ".auto", id="a")
    client.subscribe(queue, id="c", ack="client")
    client.publish(queue + ".auto", b"x")
    client.publish(queue, b"y")
    for message in client.messages(2):
        assert ("ack" in message.headers) == (message["subscription"] == "c")


def test_case_50_an_ack_without_id(join, queue):
    client = join()
    client.send("ACK", {"receipt": "r"})
    error(client, "id", receipt="r")


@pytest.mark.parametrize("header", ["consumer-window-size", "activemq.prefetchSize"])
@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_case_51_window_zero_is_one_message_at_a_time(join, name, header, command):
    client, writer = join(), join()
    queue = f"/queue/discard.{name}"
    client.ask("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client", header: "0"})
    load(writer, queue, 3)
    for body in numbers(3):
        message = client.read()
        assert message.body == body
        client.nothing()
        client.settle(command, message)


def test_case_51_the_new_name_wins_over_the_old_one(join, queue):
    client = join()
    headers = {"consumer-window-size": "-1", "activemq.prefetchSize": "0"}
    client.ask("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client", **headers})
    load(client, queue, 3)
    client.messages(3)


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_case_52_a_window_of_two_messages(join, queue, mode):
    client, writer, scout = join(), join(), join()
    body = b"x" * 200
    scout.subscribe(queue, id="1", ack=mode)
    writer.publish(queue, body)
    found = scout.read()
    size = size_of(found)
    scout.ask("ACK", {"id": found["ack"]})
    scout.ask("UNSUBSCRIBE", {"id": "1"})
    client.subscribe(queue, id="1", ack=mode, consumer_window_size=2 * size)
    for _ in range(3):
        writer.publish(queue, body)
    first, second = client.messages(2)
    client.nothing()
    if mode == "client":
        client.ack(second)
    else:
        client.ack(first)
        client.ack(second)
    client.read()


def test_case_52_a_window_of_many_messages(join, queue):
    """Counted as they are; an edge that has delivered nothing of the slot guesses how long their numbers are."""
    client, scout = join(), join()
    scout.subscribe(queue, ack="client")
    scout.publish(queue, b"x" * 40)
    found = scout.read()
    scout.ask("ACK", {"id": found["ack"]})
    scout.ask("UNSUBSCRIBE", {"id": "1"})
    for _ in range(120):
        client.publish(queue, b"x" * 40)
    client.subscribe(queue, ack="client", consumer_window_size=100 * size_of(found))
    assert 92 <= len(client.sync()) <= 108


def test_case_52_a_window_may_be_passed_by_one_message(join, queue):
    """Delivered while anything is left of the window, so that a message larger than it comes through."""
    client = join()
    client.subscribe(queue, ack="client", consumer_window_size=500)
    for number in range(3):
        client.publish(queue, b"%d" % number + b"x" * 290)
    held = client.messages(2)
    client.nothing()
    client.ack(held[-1])
    client.read()


def test_case_53_a_negative_acknowledgement_brings_the_message_again(join, name):
    client, undertaker = join(), join()
    queue = f"/queue/poison.{name}"
    undertaker.subscribe("/queue/dead.letters")
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, b"bad", persistent="true")
    message = client.read()
    assert message.get("redelivered", "false") == "false"
    for count in ("2", "3"):
        client.nack(message)
        message = client.read()
        assert (message["redelivered"], message["delivery-count"]) == ("true", count)
    client.nack(message)
    client.nothing()
    dead = undertaker.read()
    assert (dead.body, dead["_AMQ_ORIG_ADDRESS"], dead["_AMQ_ORIG_QUEUE"]) == (
        b"bad",
        f"poison.{name}",
        f"poison.{name}",
    )


def test_case_53_or_drops_it_where_the_address_says_so(site, join, name):
    client = join()
    queue = f"/queue/discard.{name}"
    client.publish(queue, b"bad")
    client.subscribe(queue, ack="client-individual")
    client.nack(client.read())
    client.nothing()
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.subscribe(queue)
    client.nothing()


def test_case_54_messages_stay_in_order(join, queue):
    client, reader = join(), join()
    for number in range(300):
        client.send("SEND", {"destination": queue}, b"%d" % number)
    client.sync()
    reader.subscribe(queue)
    assert bodies(reader.messages(300)) == numbers(300)


def test_case_54_also_when_they_are_delivered_again(join, queue):
    client, writer = join(), join()
    load(writer, queue, 100, persistent="true")
    client.subscribe(queue, ack="client", consumer_window_size=-1)
    client.ack(client.messages(70)[49])
    client.ask("DISCONNECT")
    reader = join()
    reader.subscribe(queue)
    assert bodies(reader.messages(50)) == numbers(100, 50)
