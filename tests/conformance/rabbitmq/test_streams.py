"""Streams: queues whose messages stay, read from where x-stream-offset says."""

from __future__ import annotations

import time

import pytest

from .checks import error

DECLARED = {"x-queue-type": "stream", "x-max-age": "1h"}


def read(client, name, offset, count, **more):
    """So many messages: the body and the offset of each."""
    client.subscribe(f"/queue/stream.{name}", offset, "client-individual", **{"x-stream-offset": offset, **more})
    found = client.messages(count)
    for message in found:
        client.ack(message)
    client.nothing()
    client.ask("UNSUBSCRIBE", {"id": offset})
    return [(message.body.decode(), int(message["x-stream-offset"])) for message in found]


def test_a_stream_is_read_again_from_where_one_says(join, name):
    sender, reader = join(), join()
    for number in range(3):
        sender.publish(f"/queue/stream.{name}", b"%d" % number, **DECLARED)
    sender.sync()
    time.sleep(1.1)
    since = int(time.time())
    sender.publish(f"/queue/stream.{name}", b"3")
    sender.sync()
    whole = read(reader, name, "first", 4, **DECLARED)
    offsets = [offset for _, offset in whole]
    assert [body for body, _ in whole] == ["0", "1", "2", "3"] and offsets == sorted(offsets)
    assert read(reader, name, f"offset={offsets[2]}", 2) == whole[2:]
    assert read(reader, name, f"offset={offsets[3] + 1}", 0) == []
    assert read(reader, name, f"timestamp={since}", 1) == whole[3:]


@pytest.mark.parametrize("headers", [{}, {"x-stream-offset": "next"}])
def test_without_an_offset_it_is_what_comes(join, name, headers):
    sender, reader = join(), join()
    sender.publish(f"/queue/stream.{name}", b"before")
    sender.sync()
    time.sleep(0.1)
    reader.subscribe(f"/queue/stream.{name}", "1", **headers)
    reader.sync()
    sender.publish(f"/queue/stream.{name}", b"after")
    assert reader.expect("MESSAGE").body == b"after"
    reader.nothing()


def test_the_last_message_and_what_comes(join, name):
    sender, reader = join(), join()
    destination = f"/queue/stream.{name}"
    reader.subscribe(destination, "empty", **{"x-stream-offset": "last"})
    reader.sync()
    for number in range(3):
        sender.publish(destination, b"%d" % number)
    sender.sync()
    assert [message.body for message in reader.messages(3)] == [b"0", b"1", b"2"], "it was there before them"
    reader.subscribe(destination, "late", **{"x-stream-offset": "last", "selector": "a IS NULL"})
    assert (message := reader.expect("MESSAGE")).body == b"2" and message["subscription"] == "late"
    reader.ask("UNSUBSCRIBE", {"id": "empty"})
    sender.publish(destination, b"3")
    sender.publish(destination, b"other", a="1")
    assert reader.expect("MESSAGE").body == b"3"
    reader.nothing()


def test_filters_are_exact(join, name):
    sender, reader = join(), join()
    for value in ("eu", "us", None, "o'x"):
        sender.publish(
            f"/queue/stream.{name}", str(value).encode(), **({"x-stream-filter-value": value} if value else {})
        )
    sender.sync()
    assert [body for body, _ in read(reader, name, "first", 2, **{"x-stream-filter": "eu,o'x"})] == ["eu", "o'x"]
    more = {"x-stream-filter": "us", "x-stream-match-unfiltered": "true"}
    assert [body for body, _ in read(reader, name, "first", 2, **more)] == ["us", "None"]


@pytest.mark.parametrize(
    ("destination", "headers", "says"),
    [
        ("/queue/stream.x", {"x-stream-offset": "latest"}, "x-stream-offset:latest"),
        ("/queue/plain", {"x-stream-offset": "last"}, "non_destructive = true"),
        ("/topic/stream.x", {"x-stream-offset": "last"}, "is no stream"),
        ("/queue/plain", {"x-stream-offset": "first"}, "non_destructive = true"),
        ("/topic/stream.x", {"x-stream-offset": "first"}, "is no stream"),
        ("/queue/plain", {"x-queue-type": "stream"}, "non_destructive = true"),
        ("/queue/stream.x", {"x-queue-type": "classic"}, "non_destructive is True"),
    ],
)
def test_what_is_no_stream_or_no_place_is_refused_by_name(join, destination, headers, says):
    client = join()
    client.send("SUBSCRIBE", {"destination": destination, "id": "1", "receipt": "r", **headers})
    error(client, "Invalid header", says, receipt="r")
