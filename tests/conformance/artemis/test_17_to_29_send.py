"""Cases 17 to 29: SEND, its headers, schedules, duplicates, and what the broker adds on request."""

from __future__ import annotations

import re
import time

import pytest

from tests.harness import build

from .checks import bodies, error
from .sites import LOGIN


def test_case_17_a_receipt_says_that_the_message_is_kept(join, queue):
    writer, reader = join(), join()
    writer.publish(queue, b"kept", persistent="true")
    writer.close()
    reader.subscribe(queue)
    assert reader.read().body == b"kept"


def test_case_18_a_body_with_nul_and_its_length(join, queue):
    client = join()
    client.subscribe(queue)
    client.send("SEND", {"destination": queue, "content-length": 5}, b"a\0b\0c")
    message = client.read()
    assert (message.body, message["content-length"]) == (b"a\0b\0c", "5")


def test_case_19_a_body_without_length_ends_at_nul(join, queue):
    client = join()
    client.subscribe(queue)
    client.raw(b"SEND\ndestination:%b\n\n\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x82\0" % queue.encode())
    assert client.read().body.decode() == "ä€🐂"


@pytest.mark.parametrize("headers", [{}, {"foo": "bar"}, {"foo": r"a\cb"}], ids=["bare", "plain", "escaped"])
@pytest.mark.parametrize("count", [1, 20])
def test_case_19_a_client_of_stomp_10_sees_what_was_text_and_what_bytes(join, queue, headers, count):
    """By content-length, which only bodies have that were sent with one."""
    client, writer = join("1.0"), join()
    client.subscribe(queue)
    text = build("SEND", {"destination": queue, **headers}, b"text")
    data = build("SEND", {"destination": queue, "content-length": 5, **headers}, b"bytes")
    writer.raw((text + data) * count)
    for message in client.messages(2 * count):
        assert message.get("content-length") == {b"text": None, b"bytes": "5"}[message.body]
        assert message.get("foo", "") == headers.get("foo", "").replace(r"\c", ":")


def test_case_20_standard_and_custom_headers_survive(join, queue):
    client = join()
    client.subscribe(queue)
    later = str(int(time.time() * 1000) + 60_000)
    sent = {
        "priority": "7", "persistent": "true", "type": "order", "correlation-id": "c-1", "expires": later,
        "JMSXGroupID": "g", "reply-to": "/queue/answers", "content-type": "text/x", "foo": "bar",
    }  # fmt: skip
    client.send("SEND", {"destination": queue, **sent}, b"x")
    message = client.read()
    assert {name: message.get(name) for name in sent} == sent
    assert message["destination"] == queue


def test_case_20_defaults_of_priority_persistence_and_expiry(join, queue):
    """4, false and 0: shown as that, or not at all; and kept to."""
    client = join()
    for priority in ("3", None, "5"):
        headers = {} if priority is None else {"priority": priority}
        client.publish(queue, str(priority).encode(), **headers)
    client.subscribe(queue)
    messages = client.messages(3)
    assert bodies(messages) == [b"5", b"None", b"3"]
    plain = messages[1]
    assert (plain.get("priority", "4"), plain.get("persistent", "false"), plain.get("expires", "0")) == (
        "4",
        "false",
        "0",
    )


def test_case_21_a_long_value_and_empty_lines_before_a_frame(join, queue):
    client = join()
    client.subscribe(queue)
    value = "x" * 1024
    client.raw(b"\n\n\n\r\n")
    client.send("SEND", {"destination": queue, "long": value}, b"x")
    assert client.read()["long"] == value


def test_case_22_escapes_of_stomp_12(join, queue):
    client = join()
    client.subscribe(queue)
    client.send("SEND", {"destination": queue, r"k\c\n\\": r"\r\n\c\\"}, b"x")
    assert (r"k\c\n\\", r"\r\n\c\\") in client.read().pairs


def test_case_22_an_undefined_escape(join, queue):
    client = join()
    client.send("SEND", {"destination": queue, "key": r"a\tb"}, b"x")
    error(client, "Undefined escape sequence")


def test_case_23_the_first_of_repeated_headers_counts(join, queue):
    client = join()
    client.subscribe(queue)
    client.send("SEND", [("destination", queue), ("destination", queue + ".b"), ("foo", "1"), ("foo", "2")], b"x")
    message = client.read()
    assert (message["destination"], message["foo"]) == (queue, "1")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_case_24_blanks_around_names_and_values_stay(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.send("SEND", {"destination": queue, " name ": " value  "}, b"x")
    assert (" name ", " value  ") in client.read().pairs


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_case_25_an_invalid_command(join, version):
    client = join(version)
    client.send("INVALID", {"destination": "x"})
    error(client, "command")


@pytest.mark.parametrize("header", ["AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME"])
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_case_26_a_scheduled_message_comes_when_it_is_due(join, queue, header, persistent):
    client, reader = join(), join()
    reader.subscribe(queue)
    due = time.time() + 2
    value = 2000 if header.endswith("DELAY") else int(due * 1000)
    client.ask("SEND", {"destination": queue, header: value, "persistent": persistent}, b"later")
    client.ask("SEND", {"destination": queue}, b"now")
    assert reader.read().body == b"now"
    assert reader.read().body == b"later"
    assert due - 0.05 <= time.time() <= due + 5


@pytest.mark.parametrize("header", ["AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME"])
def test_case_26_a_schedule_that_is_no_number(join, queue, header):
    client, reader = join(), join()
    client.send("SEND", {"destination": queue, header: "foo", "receipt": "r"}, b"x")
    error(client, header, "foo", receipt="r")
    reader.subscribe(queue)
    reader.nothing()


def test_case_27_a_duplicate_is_taken_once(join, queue):
    one, two, reader = join(), join(), join()
    one.ask("SEND", {"destination": queue, "_AMQ_DUPL_ID": "id-1"}, b"first")
    two.ask("SEND", {"destination": queue, "_AMQ_DUPL_ID": "id-1"}, b"again")
    two.ask("SEND", {"destination": queue, "_AMQ_DUPL_ID": "id-2"}, b"other")
    reader.subscribe(queue)
    assert bodies(reader.messages(2)) == [b"first", b"other"]
    reader.nothing()


def test_case_28_messages_are_marked_with_an_id_where_the_acceptor_says_so(join, queue):
    client, plain = join(acceptor="marks"), join()
    client.publish(queue, b"marked")
    plain.publish(queue, b"not marked")
    plain.subscribe(queue)
    marked, other = plain.messages(2)
    assert re.fullmatch(r"STOMP\S+", marked["amqMessageId"])
    assert "amqMessageId" not in other.headers


def test_case_28_ids_differ(join, queue):
    client = join(acceptor="marks")
    client.subscribe(queue)
    client.raw(b"SEND\ndestination:%b\n\nx\0" % queue.encode() * 5)
    assert len({message["amqMessageId"] for message in client.messages(5)}) == 5


def test_case_29_the_time_at_which_a_message_was_taken(join, name):
    client = join()
    destination = f"/queue/stamped.{name}"
    client.subscribe(destination)
    before = time.time() * 1000
    client.publish(destination, b"x")
    message = client.read()
    assert before - 1 <= int(message["ingress-timestamp"]) <= time.time() * 1000 + 1


def test_case_29_the_user_who_sent_a_message(join, queue):
    client, plain = join(acceptor="marks"), join()
    client.ask("SEND", {"destination": queue, "JMSXUserID": "somebody else"}, b"x")
    plain.publish(queue, b"y")
    plain.subscribe(queue)
    message, other = plain.messages(2)
    assert [value for key, value in message.pairs if key == "JMSXUserID"] == [LOGIN]
    assert "JMSXUserID" not in other.headers
