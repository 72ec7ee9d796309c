"""Messages as operators see and send them: bytes in, JSON out, and back without loss."""

from __future__ import annotations

import base64

import pytest

from broker.admin.desk.shown_messages import MAX_HEADERS, again, made, onward, row, says_when, stored, unlabelled
from broker.client import connect
from broker.core.message import (
    DURABLE,
    ESCAPED,
    GROUPED,
    LABELS,
    NO_IDS,
    REDELIVERED,
    TEXT,
    TRANSIENT,
    WAS_DURABLE,
    Run,
)
from broker.engine.publishing.recurrence import Recurrence


async def test_exported_messages_come_back_as_they_were(api):
    async with connect(api.url) as client:
        await client.send("a", b"\x00\xff\n\n:", {"destination-type": "ANYCAST", "x": "1:2\n\\"}, receipt=True)
        await client.send(
            "a", "ü", {"destination-type": "ANYCAST", "priority": "7", "persistent": "false"}, receipt=True
        )
    before = (await api.get("/queues/a/messages", raw="true"))["items"]
    await api.call("POST", "/addresses/b/messages", 201, exported=before)
    after = (await api.get("/queues/b/messages", raw="true"))["items"]
    for old, new in zip(before, after, strict=True):
        for name in ("raw", "flags", "priority", "durable", "expires", "headers", "body"):
            assert old[name] == new[name], name
    assert [row["encoding"] for row in after] == ["text", "base64"], "the higher priority is first"
    status, told = await api.raw("POST", "/addresses/b/messages", json={"exported": [{"raw": "AAAA"}]})
    assert status == 400 and "export" in told["fix"]


async def test_what_is_sent_with_zeros_in_it_is_read_whole(api):
    await api.call("POST", "/addresses/orders/messages", 201, body="a\0b", headers=["destination:/queue/orders"])
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual") as subscription:
        message = await anext(aiter(subscription))
        assert message.body == b"a\0b" and message.headers["destination"] == "/queue/orders"
    status, told = await api.raw("POST", "/addresses/orders/messages", json={"headers": ["message-id:1"]})
    assert status == 400 and "message-id" in told["detail"]


def test_what_was_added_to_a_dead_letter_is_all_that_is_taken_off():
    label = LABELS[0]
    message = label + b"x\nkept:1\n" + label + b"inside\n\nbody\0"
    assert unlabelled(message) == b"kept:1\n" + label + b"inside\n\nbody\0"
    assert unlabelled(b"\nbody\0") == b"\nbody\0"


@pytest.mark.parametrize(
    ("body", "preview", "shown"),
    [
        (b"hello", 5, ("hello", "text", True)),
        (b"hello", 4, ("hell", "text", False)),
        ("aü".encode(), 2, ("a", "text", False)),
        (b"\xff\xfe", 9, ("//4=", "base64", True)),
        (b"\xffabcdefgh", 6, ("/2FiY2Rl", "base64", False)),
        (b"", 0, ("", "text", True)),
    ],
)
def test_a_piece_of_a_body_is_text_where_it_can_be(body, preview, shown):
    run = made({"a": "b"}, body, True, 4)
    told = row(3, numbered(run), 0, preview, False)
    assert (told["body"], told["encoding"], told["complete"]) == shown
    assert (told["length"], told["id"], told["durable"], "raw" in told) == (len(body), "3-7", True, False)


def numbered(run: Run) -> Run:
    return Run(range(7, 7 + len(run.records)), run.lines, run.records, run.nbytes, run.flags, run.priority)


def test_a_message_is_a_text_unless_its_body_or_its_headers_say_otherwise():
    assert made({}, b"x", False, 4).flags == TEXT
    assert made({}, b"a\0b", True, 4).flags == DURABLE
    assert b"content-length:3" in made({}, b"a\0b", True, 4).records[0]
    assert made({"content-length": "1"}, b"x", False, 4).flags == 0
    assert made({"JMSXGroupID": "g"}, b"", False, 4).flags & GROUPED
    assert not made({"xJMSXGroupID": "g"}, b"", False, 4).flags & GROUPED
    assert made({"a:b": "c\nd"}, b"", False, 4).flags & ESCAPED


def test_what_was_told_whole_comes_back_the_same():
    run = numbered(made({"a": "b\\c", "JMSXGroupID": "g"}, b"x\0y", True, 7))
    told = row(3, run, 0, 10, True)
    back = again(told)
    assert (back.records, back.flags, back.priority, back.expires) == ([stored(run, 0)], run.flags, 7, 0)


@pytest.mark.parametrize("raw", [b"no end", b"headers:1\nno empty line\0", b""])
def test_what_is_no_message_is_refused(raw):
    with pytest.raises(ValueError):
        again({"raw": base64.b64encode(raw).decode()})
    with pytest.raises(ValueError):
        again({"raw": "not base64!"})


def test_headers_that_are_shown_have_a_bound():
    run = numbered(made({f"h{n}": "" for n in range(MAX_HEADERS + 5)}, b"", False, 4))
    assert len(row(0, run, 0, 0, False)["headers"]) == MAX_HEADERS


def test_a_letter_that_is_sent_on_keeps_what_it_is_and_not_what_became_of_it():
    run = Run([1], b"", [b"\nx\0"], 3, TRANSIENT | WAS_DURABLE | TEXT | REDELIVERED, 6, 99, 5, 3)
    on = onward(run, run.records)
    assert (on.flags, on.priority, on.expires, on.attempts, on.ids) == (DURABLE | TEXT, 6, 99, 0, NO_IDS)
    assert onward(Run([1], b"", [b"\nx\0"], 3, TRANSIENT), [b"\nx\0"]).flags == 0


def test_messages_rest_where_recurrences_do_only_if_each_says_when():
    when, plain = Recurrence("a", period=5).lines() + b"k:v\n\nx\0", b"k:v\n\nx\0"
    assert says_when(Run([1, 2], b"", [when, when], 9))
    assert not says_when(Run([1, 2], b"", [when, plain], 9)) and not says_when(Run([1], b"", [plain], 9))
