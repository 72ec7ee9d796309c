"""Temporary destinations: an answer finds who asked, wherever both are connected, and nobody else.

In the cluster the two clients of a test are at different edges, and the requester's temporary queue is in another slot
than the queue of requests."""

from __future__ import annotations

import pytest

from broker.core.errors import Code

from .checks import error


@pytest.fixture
def responder(join, queue):
    client = join()
    client.subscribe(queue, ack="client-individual")
    return client


def answer(client, *bodies: bytes) -> str:
    """Takes a request and answers it. Returns where to."""
    request = client.expect("MESSAGE")
    client.ack(request)
    for body in bodies:
        client.publish(request["reply-to"], body, correlation_id=request.get("correlation-id", ""))
    return request["reply-to"]


def ask(client, queue, body=b"?", reply="/temp-queue/answers", **headers):
    client.publish(queue, body, reply_to=reply, **headers)


def test_a_reply_to_is_enough_to_be_answered(join, queue, responder):
    client = join()
    ask(client, queue, correlation_id="7")
    where = answer(responder, b"!")
    assert where.startswith("/reply-queue/") and "answers" not in where
    reply = client.expect("MESSAGE", {"subscription": "/temp-queue/answers", "correlation-id": "7"})
    assert reply.body == b"!" and reply.get("ack") is None


def test_a_subscription_of_its_own_gets_the_answers(join, queue, responder):
    client = join()
    client.subscribe("/temp-queue/answers", id="mine", ack="client-individual")
    ask(client, queue)
    answer(responder, b"!")
    client.ack(client.expect("MESSAGE", {"subscription": "mine"}))


def test_every_connection_has_its_own(join, queue, responder):
    one, other = join(), join()
    ask(one, queue, b"one")
    first = answer(responder, b"for one")
    ask(other, queue, b"other")
    second = answer(responder, b"for other")
    assert first != second
    assert one.expect("MESSAGE").body == b"for one"
    assert other.expect("MESSAGE").body == b"for other"
    one.nothing()


def test_the_name_stays_the_same_within_a_connection(join, queue, responder):
    client = join()
    for number in range(3):
        ask(client, queue, b"%d" % number)
    assert len({answer(responder, b"!") for _ in range(3)}) == 1
    assert len(client.messages(3)) == 3
    ask(client, queue, reply="/temp-queue/other")
    answer(responder, b"!")
    client.expect("MESSAGE", {"subscription": "/temp-queue/other"})


def test_requests_in_a_transaction(join, queue, responder):
    client = join()
    client.ask("BEGIN", {"transaction": "t"})
    ask(client, queue, transaction="t")
    client.ask("COMMIT", {"transaction": "t"})
    answer(responder, b"!")
    assert client.expect("MESSAGE").body == b"!"


def test_a_large_request_is_answered(join, queue, responder):
    client = join()
    ask(client, queue, b"x" * 300_000)
    answer(responder, b"y" * 300_000)
    assert client.expect("MESSAGE").body == b"y" * 300_000


def test_nobody_else_reads_the_answers(join, queue, responder):
    client = join()
    ask(client, queue)
    where = answer(responder)
    opaque = where.rpartition("/")[2]
    for name in (where, f"/topic/$temp.{opaque}", f"/queue/$temp.{opaque}", f"$temp.{opaque}::x", "/topic/$temp.*"):
        thief = join()
        thief.send("SUBSCRIBE", {"destination": name, "id": "1", "receipt": "r"})
        error(thief, Code.BAD_DESTINATION, receipt="r")
    spy = join()
    spy.subscribe("/topic/#")
    responder.publish(where, b"!")
    assert client.expect("MESSAGE").body == b"!"
    spy.nothing()


def test_an_answer_to_who_has_gone_is_dropped_and_harms_nobody(join, queue, responder):
    client = join()
    ask(client, queue)
    where = answer(responder)
    client.ask("DISCONNECT")
    responder.publish(where, b"too late")  # its RECEIPT comes
    assert responder.sync() == []


@pytest.mark.parametrize("name", ["/reply-queue/x", "/reply-queue/", "/remote-temp-queue/" + "0" * 31])
def test_a_name_that_was_never_given(join, name):
    client = join()
    client.send("SEND", {"destination": name, "receipt": "r"}, b"x")
    error(client, Code.BAD_DESTINATION, receipt="r")


def test_a_temporary_topic_may_have_several_subscriptions(join, queue, responder):
    client = join()
    client.subscribe("/temp-topic/news", id="1")
    client.subscribe("/temp-topic/news", id="2")
    ask(client, queue, reply="/temp-topic/news")
    assert answer(responder, b"!").startswith("/reply-topic/")
    assert {message["subscription"] for message in client.messages(2)} == {"1", "2"}


def test_messages_to_oneself(join):
    client = join()
    client.subscribe("/temp-queue/self", id="1")
    client.publish("/temp-queue/self", b"x")
    assert client.expect("MESSAGE", {"destination": "/temp-queue/self"}).body == b"x"


@pytest.mark.parametrize(
    ("command", "headers", "code"),
    [
        ("SEND", {"destination": "/temp-queue/x"}, Code.NO_SUCH_DESTINATION),
        ("SEND", {"destination": "/queue/x", "reply-to": "/temp-topic/x"}, Code.BAD_HEADER),
        ("SUBSCRIBE", {"destination": "/temp-queue/", "id": "1"}, Code.BAD_DESTINATION),
    ],
)
def test_what_would_wait_for_ever_is_refused(join, command, headers, code):
    client = join()
    client.send(command, {**headers, "receipt": "r"})
    error(client, code, receipt="r")


def test_a_name_is_free_after_unsubscribe(join, queue, responder):
    client = join()
    client.subscribe("/temp-queue/x", id="1")
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.subscribe("/temp-queue/x", id="2")
    ask(client, queue, reply="/temp-queue/x")
    answer(responder, b"!")
    client.expect("MESSAGE", {"subscription": "2"})
