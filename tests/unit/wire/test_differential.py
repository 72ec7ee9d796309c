"""The fast paths give what a naive reader gives, however the octets are cut and whatever was read before."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.wire.events import Frame, Sends
from broker.wire.memo import Memo

from .cutting import V10, V11, V12, cuts, feed, flatten, logged_in
from .reference import reference

NAMES = ["destination", "x", "seq", "persistent", "receipt", "content-length", "message-id", "subscription", "id"]
NAMES += ["transaction", "ack", "x\\c", "é", "\\", "a b", ""]
VALUES = ["/queue/a", "/queue/b", "1", "2", "33", "3", "0", "", "a:b", "a\\cb", "\\\\", "\\n", "\\r", "\\t", "\\", "é"]
VALUES += [" pad ", "r\r", "true", "auto", "client", "+3", "1_0"]
BODIES = [b"", b"abc", b"xyz", b"a\0b", b"\n\n", b"SEND\ndestination:/queue/a\ncontent-length:3\n\nabc"]
TYPICAL = [b"SEND\ndestination:/queue/a\ncontent-length:3\n\nabc\0", b"SEND\ndestination:/queue/a\n\nabc\0"]
TYPICAL += [b"ACK\nid:1\n\n\0", b"ACK\nsubscription:s\nmessage-id:7\n\n\0", b"ACK\nmessage-id:7\nsubscription:s\n\n\0"]


@st.composite
def frames(draw):
    """A frame that is mostly right."""
    kind = draw(st.integers(0, 9))
    if kind < 3:
        return draw(st.sampled_from(TYPICAL))
    body = draw(st.sampled_from(BODIES))
    eol = b"\r\n" if kind == 9 else b"\n"
    if kind < 8:
        number = draw(st.integers(0, 50))
        lines = [b"destination:/queue/%d" % (number % 2), b"seq:%d" % number, b"c:d", b"receipt:r%d" % number]
        lines = [line for line in lines if draw(st.booleans())]
        if draw(st.booleans()) or b"\0" in body:
            lines.append(b"content-length:%d" % len(body))
        command = b"SEND"
    else:
        pair = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES))
        lines = [f"{name}:{value}".encode() for name, value in draw(st.lists(pair, max_size=4))]
        commands = [b"SEND", b"ACK", b"NACK", b"SUBSCRIBE", b"UNSUBSCRIBE", b"BEGIN", b"DISCONNECT", b"FOO", b"CONNECT"]
        command = draw(st.sampled_from(commands))
        body = draw(st.sampled_from([b"", body]))
    gap = draw(st.sampled_from([b"", b"", b"\n", b"\r\n", b"\n\n"]))
    return eol.join([command, *lines, b"", b""]) + body + b"\0" + gap


streams = st.lists(
    st.one_of(frames(), frames().flatmap(lambda f: st.integers(2, 30).map(lambda n: f * n))), max_size=12
)
A_READ_EACH = re.compile(rb"[^\0]*\0\n?|[^\0]+").findall


def shorten(flat):
    return [entry[:2] if entry[0] == "VIOLATION" else entry for entry in flat]


def agree(data, version, memo):
    expected = reference(data, version)
    assert shorten(feed(logged_in(version, memo=memo), [data])) == expected
    whole = feed(logged_in(version), [data])
    assert shorten(whole) == expected
    assert feed(logged_in(version, memo=memo), cuts(data, len(data))) == whole
    # As from who waits for an answer: a frame a read, and what a body's own NUL makes of that.
    assert feed(logged_in(version, memo=memo), A_READ_EACH(data)) == whole
    if len(data) < 600:
        assert feed(logged_in(version, memo=memo), [data[i : i + 1] for i in range(len(data))]) == whole


@pytest.mark.parametrize("version", [V10, V11, V12])
def test_generated_streams(version):
    memo = Memo(16)

    @settings(max_examples=120, deadline=None, derandomize=True)
    @given(streams.map(b"".join))
    @example(TYPICAL[0] * 40 + b"SEND\ndestination:/queue/a\ncontent-length:3\n\nabcd" + TYPICAL[0] * 3)
    @example(b"SEND\ndestination:a\ncontent-length:1\n\n\0\0" * 5)
    def run(data):
        agree(data, version, memo)

    run()


def like_frames(rng):
    """Frames that differ from each other the way producers' frames do."""
    body = rng.choice([b"abc", b"a\0c", b"longer body", b""])
    fixed = rng.choice([b"", b"t:x\n", b"persistent:true\n"])
    vary = rng.choice(
        ["receipt", "seq", "both", "size", "destination", "nothing", "name", "odd", "odd receipt", "odd seq", "twice"]
    )
    out = []
    for n in range(rng.randrange(2, 60)):
        value = rng.choice([b"%d" % n, b"x" * (n % 40), b"a:b", b"\\c", b"\\q", b"", b"\xc3\xa9", b" s ", b"\xff"])
        value = value if vary.startswith("odd") and rng.random() < 0.2 else b"%d" % (n * 7)
        text = body * (n % 3) if vary == "size" else body
        lines = [b"destination:/queue/%b\n" % (value if vary == "destination" else b"a"), fixed]
        lines += [b"seq:%b\n" % value] if vary in ("seq", "both", "odd", "odd seq") else []
        lines += [b"n%b:1\n" % value] if vary == "name" else []
        if vary in ("receipt", "both", "odd", "odd receipt") and rng.random() < 0.9:
            lines.append(b"receipt:%b\n" % value)
        if vary == "twice" and rng.random() < 0.2:
            lines.append(b"destination:other\n")
        lines += [b"content-length:%d\n" % len(text)] if b"\0" in text or fixed or rng.random() < 0.95 else []
        out.append(b"SEND\n%b\n%b\0%b" % (b"".join(lines), text, b"\n" if n % 11 == 0 else b""))
    return b"".join(out)


def real_frames(rng):
    """Frames of a few rows of names, values and sizes of which differ; some are wrong, some have lines in common."""
    names = [
        b"destination",
        b"persistent",
        b"a",
        b"corr-id",
        b"JMSXGroupID",
        b"transaction",
        b"subscription",
        b"expires",
    ]
    rows = []
    for _ in range(rng.randrange(1, 4)):
        more = rng.sample(names[1:], rng.randrange(5)) + rng.choice([[], [b"receipt"], [b"content-length"]])
        row = [b"destination", *more]
        rng.shuffle(row)
        rows.append(row)
    odd = [b"\\c", b"\\q", b"a:b", b"", b" s ", b"\xc3\xa9", b"\xff", b"x" * 20, b"\\\\n", b"\\r"]
    out, wrong, fixed = [], rng.choice([0, 0.01, 0.1]), rng.random() < 0.3
    for _ in range(rng.randrange(4, 80)):
        body = b"b" * rng.randrange(3 if fixed else 20)
        lines = []
        for name in rng.choice(rows):
            value = b"1" if fixed and name != b"receipt" else b"%d" % rng.randrange(1 << rng.choice([1, 3, 30]))
            value = b"/queue/%b" % value[:1] if name == b"destination" else value
            value = b"%d" % len(body) if name == b"content-length" else value
            lines.append(b"%b:%b\n" % (name, rng.choice(odd) if rng.random() < wrong else value))
        gap = rng.choice([b"", b"", b"\n", b"\n\n\n", b"\r\n", b"\n" * 9])
        out.append(b"SEND\n%b\n%b\0%b" % (b"".join(lines), body, gap))
    return b"".join(out)


@pytest.mark.parametrize("version", [V10, V11, V12])
def test_frames_that_all_differ(version):
    rng, memo = random.Random(5), Memo(32)
    for _ in range(200):
        data = bytearray(real_frames(rng))
        if rng.random() < 0.3:
            data[rng.randrange(len(data))] = rng.choice(b"\0\n\r:\\x\xff")
        agree(bytes(data), version, memo)


def stretches(rng):
    """Frames of few rows of names, in stretches in which now this and now that stays the same."""
    rows = [[b"destination", b"transaction", b"n"], [b"destination", b"n", b"content-length"], [b"n", b"destination"]]
    rows += [[b"receipt", b"destination", b"transaction", b"content-length"], [b"destination", b"x-content-length"]]
    out = []
    for _ in range(rng.randrange(1, 8)):
        row, vary = rng.choice(rows), rng.choice([b"n", b"transaction", b"destination", b"receipt", b"body", b""])
        values = {
            b"transaction": b"t%d" % rng.randrange(2),
            b"destination": b"/queue/%d" % rng.randrange(2),
            b"n": b"1",
        }
        values |= {b"receipt": b"r", b"x-content-length": b"3"}
        for n in range(rng.randrange(1, 20)):
            body = b"b\0d" if b"content-length" in row and n % 3 == 1 else b"b" * (n % 4 if vary == b"body" else 3)
            now = values | {b"content-length": b"%d" % len(body)}
            if vary in now:
                now[vary] = b"%b%d" % (rng.choice([b"", b"", b"", b" ", b"\\\\"]), rng.randrange(3))
            eol = rng.choice([b"\n"] * 9 + [b"\r\n"])
            out.append(eol.join([b"SEND", *[b"%b:%b" % (name, now[name]) for name in row], b"", b""]) + body + b"\0")
    return b"".join(out)


def test_connections_share_what_blocks_mean_and_not_what_they_said():
    """Of one listener and all versions, in turn, cut anywhere: each is read as if it were alone."""
    rng, memo = random.Random(9), Memo(32)
    for _ in range(60):
        versions = [V10, V11, V12, V12, rng.choice([V10, V11, V12])]
        streams = [stretches(rng) for _ in versions]
        connections = [logged_in(version, memo=memo) for version in versions]
        events, places = [[] for _ in versions], [0] * len(versions)
        while left := [n for n, data in enumerate(streams) if places[n] < len(data)]:
            n = rng.choice(left)
            stop = places[n] + (rng.randrange(1, 500) if n < 4 else 1)  # the last one octet by octet
            events[n] += connections[n].receive(streams[n][places[n] : stop])
            places[n] = stop
        for version, data, came in zip(versions, streams, events, strict=True):
            assert shorten(flatten(came)) == reference(data, version)


@pytest.mark.parametrize("version", [V10, V11, V12])
def test_like_frames_of_producers(version):
    """Long stretches, so that every fast path is entered, left and entered again."""
    rng = random.Random(12)
    memo = Memo(32)
    for _ in range(150):
        data = bytearray(b"".join(like_frames(rng) for _ in range(rng.randrange(1, 4))))
        if rng.random() < 0.4:
            data[rng.randrange(len(data))] = rng.choice(b"\0\n\r:\\x\xff")
        agree(bytes(data), version, memo)


def places(events):
    """Where each frame goes is known from now on, as an edge knows it. Those of a transaction keep their place."""
    for event in events:
        if isinstance(event, Sends) and event.head.route is None:
            headers = event.head.headers
            order = None if "transaction" in headers else headers.get("destination", "")[-1:]
            event.head.goes("known", order)
    return events


def numbers(events):
    """Of frames of passing(): which one comes when, and of each place."""
    order, at = [], {}
    for event in events:
        if isinstance(event, Sends):
            found = [int(record.rpartition(b"\n")[2][:-1]) for record in event.records]
            at.setdefault(event.head.headers["destination"][-1], []).extend(found)
        else:
            found = [int(event.headers["transaction"])] if isinstance(event, Frame) else [int(id) for id in event.ids]
        order += found
    return order, at


def passing(rng):
    """Frames to several places in turn, also with two names for one place, now and then with something else between;
    and the numbers of those that nothing may pass."""
    out, fences = [], []
    for n in range(rng.randrange(200)):
        kind, number = rng.random(), b"%04d" % n
        name = rng.choice([b"/queue/", b"/queue/", b"queue"])
        lines = [b"destination:%b%d" % (name, n % rng.choice([3, 3, 3, 2]))]
        lines += [b"n:%d" % n] * (rng.random() < 0.5) + [b"content-length:4"] * (rng.random() < 0.7)
        fences += [n] * (kind < 0.08)
        if kind < 0.02:
            out.append(b"BEGIN\ntransaction:%b\n\n\0" % number)
        elif kind < 0.04:
            out.append(b"ACK\nid:%b\n\n\0" % number)
        else:
            lines += [b"transaction:t"] * (kind < 0.06) + [b"receipt:r"] * (0.06 <= kind < 0.08)
            out.append(b"SEND\n%b\n\n%b\0" % (b"\n".join(lines), number))
    return b"".join(out), fences


def test_frames_pass_only_what_goes_elsewhere():
    """Read as a whole, each place gets the same in the same order, and nothing passes what may not be passed."""
    rng, passed = random.Random(3), 0
    for _ in range(80):
        memo, (data, fences) = Memo(32), passing(rng)
        for _ in range(2):  # what is known then
            places(logged_in(V12, memo=memo).receive(data))
        order, at = numbers(logged_in(V12, memo=memo).receive(data))
        connection = logged_in(V12, memo=memo)
        sent, each = numbers([event for frame in A_READ_EACH(data) for event in connection.receive(frame)])
        assert at == each and sent == sorted(order)
        for fence in fences:
            assert set(order[: order.index(fence)]) == set(range(fence))
        passed += order != sent
    assert passed > 40, "else nothing was shown"


@pytest.mark.parametrize("version", [V10, V11, V12])
def test_acks(version):
    rng = random.Random(7)
    names = ["id", "message-id", "subscription", "receipt"]
    for _ in range(150):
        out = []
        for n in range(rng.randrange(1, 30)):
            odd = (
                rng.choice([b"\\c", b"\\q", b"\r", b"\xff", b"a:b", b" 1", b"", b"\n"])
                if rng.random() < 0.01
                else b"%d" % n
            )
            use = (
                ["id"] if version is V12 else rng.sample(["message-id", "subscription"], rng.choice([1, 2, 2, 2, 2, 2]))
            )
            use = use + ["receipt"] * (rng.random() < 0.3) + rng.sample(names, 1) * (rng.random() < 0.03)
            lines = b"".join(b"%b:%b\n" % (name.encode(), odd) for name in use)
            out.append(b"ACK\n%b\n\0%b" % (lines, b"\n" * (rng.random() < 0.1)))
        agree(b"".join(out), version, None)


@pytest.mark.parametrize("line", [b"receipt", b"seq"])
@pytest.mark.parametrize("last", [b"xx", b"\0x", b"", b"x"])
def test_last_frame_of_a_bulk_step(line, last):
    """Blocks that differ in one value; the last frame is short, long, or its body ends wrongly."""
    frame = b"SEND\ndestination:a\n%b:%d\ncontent-length:1\n\n"
    memo = Memo(8)
    for count in (3, 4, 5, 6, 20, 40):
        data = b"".join(frame % (line, n) + b"b\0" for n in range(count)) + frame % (line, count) + last
        agree(data, V12, memo)
        agree(data + b"\0" + frame % (line, 1) + b"b\0", V12, memo)
