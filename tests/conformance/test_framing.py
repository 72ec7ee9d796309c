"""C01 … C18: the grammar, seen from both ends of the broker: what a sender writes and what a subscriber gets."""

from __future__ import annotations

import pytest

from broker.core.errors import Code
from tests.harness import build

from .checks import error, every_version, since_11


@every_version
@pytest.mark.parametrize("tail", [b"\n", b"\n\n\n", b"\n" * 500])
def test_C01_line_ends_after_a_frame_are_ignored(join, queue, version, tail):
    client = join(version)
    client.subscribe(queue)
    client.raw((build("SEND", {"destination": queue}, b"one") + tail) * 2)
    assert [m.body for m in client.messages(2)] == [b"one", b"one"]


@pytest.mark.parametrize("tail", [b"\r\n", b"\r\n\n\r\n"])
def test_C01_v12_crlf_after_a_frame_is_ignored(join, queue, tail):
    client = join()
    client.subscribe(queue)
    client.raw((build("SEND", {"destination": queue}, b"one") + tail) * 2)
    assert [m.body for m in client.messages(2)] == [b"one", b"one"]


def test_C02_v11_a_carriage_return_belongs_to_the_value(join, queue):
    old, new, sender = join("1.1"), join("1.2"), join("1.1")
    topic = queue.replace("/queue/", "/topic/")
    old.subscribe(topic)
    new.subscribe(topic)
    sender.raw(f"SEND\nfoo:bar\r\ndestination:{topic}\n\nx\0".encode())
    assert old.read()["foo"] == "bar\r"
    assert new.read()["foo"] == "bar\\r"


def test_C02_v11_a_carriage_return_belongs_to_the_command(join, queue):
    client = join("1.1")
    client.raw(f"SEND\r\ndestination:{queue}\n\nx\0".encode())
    error(client, Code.UNKNOWN_COMMAND)


@pytest.mark.parametrize("eols", ["\r\n,\r\n,\r\n", "\r\n,\n,\n", "\n,\r\n,\n", "\n,\n,\r\n", "\r\n,\n,\r\n"])
def test_C03_v12_a_carriage_return_may_precede_every_line_feed(join, queue, eols):
    client = join()
    client.subscribe(queue)
    command, header, blank = eols.split(",")
    client.raw(f"SEND{command}destination:{queue}{header}foo:bar{header}{blank}x\r\n\0".encode())
    message = client.read()
    assert (message["foo"], message["destination"], message.body) == ("bar", queue, b"x\r\n")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_C03_connect_may_use_crlf_whatever_it_asks_for(dial, version):
    client = dial(version)
    client.raw(f"CONNECT\r\naccept-version:{version}\r\nhost:x\r\n\r\n\0".encode())
    assert client.expect("CONNECTED")["version"] == version


@since_11
@pytest.mark.parametrize("command", ["send", "Send", "SENd"])
def test_C04_commands_are_case_sensitive(join, queue, version, command):
    client = join(version)
    client.send(command, {"destination": queue})
    error(client, Code.UNKNOWN_COMMAND)


@since_11
def test_C04_header_names_are_case_sensitive(join, queue, version):
    client = join(version)
    client.send("SEND", {"Destination": queue, "receipt": "r"})
    error(client, Code.MISSING_HEADER, "r")


@since_11
def test_C05_header_names_and_values_are_utf8(join, queue, version):
    client = join(version)
    client.subscribe(queue + "-žluťoučký")
    client.send("SEND", {"destination": queue + "-žluťoučký", "größe": "日本 🐎"}, "ünï".encode())
    message = client.read()
    assert (message["größe"], message["destination"]) == ("日本 🐎", queue + "-žluťoučký")
    assert message.body == "ünï".encode()


@since_11
@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf"])
def test_C05_headers_that_are_not_utf8_are_an_error(join, queue, version, bad):
    client = join(version)
    client.raw(b"SEND\ndestination:" + queue.encode() + b"\nfoo:" + bad + b"\n\nx\0")
    error(client, Code.NOT_UTF8)


@since_11
def test_C06_escapes_are_decoded(join, name, version):
    """The destination is compared decoded: a 1.0 client writes the colon as it is."""
    old, new = join("1.0"), join(version)
    old.subscribe(f"/queue/{name}:\\x")
    new.publish(f"/queue/{name}\\c\\\\x", b"hello")
    assert old.read().body == b"hello"


@since_11
def test_C06_escapes_in_a_receipt_come_back_the_same(join, queue, version):
    client = join(version)
    client.send("SEND", {"destination": queue, "receipt": r"a\cb\\c\nd"})
    client.expect("RECEIPT", {"receipt-id": r"a\cb\\c\nd"})


def test_C07_v12_carriage_return_is_an_escape(join, queue):
    client = join()
    client.subscribe(queue)
    client.send("SEND", {"destination": queue, "foo": r"a\rb", "receipt": r"x\r"})
    frames = {frame.command: frame for frame in (client.read(), client.read())}
    assert frames["MESSAGE"]["foo"] == r"a\rb"
    assert frames["RECEIPT"]["receipt-id"] == r"x\r"


@since_11
@pytest.mark.parametrize("escape", [r"a\tb", r"a\0", r"\q", "a\\", r"\N", r"\C"])
@pytest.mark.parametrize("place", ["value", "name"])
def test_C08_an_undefined_escape_is_fatal(join, queue, version, escape, place):
    client = join(version)
    header = f"foo:{escape}" if place == "value" else f"{escape}:foo"
    client.raw(f"SEND\ndestination:{queue}\n{header}\nreceipt:r\n\nx\0".encode())
    frame = client.expect("ERROR")
    assert frame["error-code"] == str(Code.BAD_ESCAPE.number)
    assert frame.get("receipt-id") in ("r", None)
    client.ended()


def test_C08_v11_carriage_return_is_an_undefined_escape(join, queue):
    client = join("1.1")
    client.send("SEND", {"destination": queue, "foo": r"a\rb", "receipt": "r"})
    error(client, Code.BAD_ESCAPE, "r")


@since_11
@pytest.mark.parametrize("header", ["subscription", "destination", "id", "transaction"])
def test_C08_undefined_escapes_are_found_in_every_frame(join, version, header):
    client = join(version)
    client.send("SUBSCRIBE", [("id", "1"), ("destination", "/queue/a"), ("x-" + header, r"\x")])
    error(client, Code.BAD_ESCAPE)


SENT_AS = {"1.0": r"p:q\n\z", "1.1": r"p\cq\\n\\z", "1.2": r"p\cq\\n\\z"}
"""The value `p:q\\n\\z` (with two backslashes, no line feed), as each version writes it."""


@every_version
@pytest.mark.parametrize("sender", ["1.0", "1.1", "1.2"], ids=["from-v10", "from-v11", "from-v12"])
def test_C09_C11_a_value_crosses_versions_unchanged(join, queue, version, sender):
    reader, writer = join(version), join(sender)
    reader.subscribe(queue)
    writer.publish(queue, b"x", foo=SENT_AS[sender])
    assert reader.read()["foo"] == SENT_AS[version]


@pytest.mark.parametrize(("version", "shown"), [("1.0", "a b"), ("1.1", r"a\nb"), ("1.2", r"a\nb")])
def test_C09_a_line_feed_never_breaks_the_frame_of_an_older_client(join, queue, version, shown):
    reader, writer = join(version), join("1.2")
    reader.subscribe(queue)
    writer.publish(queue, b"x", foo=r"a\nb", after="1")
    message = reader.read()
    assert (message["foo"], message["after"], message.body) == (shown, "1", b"x")


@since_11
def test_C12_values_are_neither_trimmed_nor_padded(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.raw(f"SEND\ndestination:{queue}\nfoo:  a b \t \n spaced :x\nempty:\n\nbody\0".encode())
    message = client.read()
    assert ("foo", "  a b \t ") in message.pairs
    assert (" spaced ", "x") in message.pairs
    assert ("empty", "") in message.pairs


BODILESS = [
    ("SUBSCRIBE", {"id": "7", "destination": "/queue/bodiless"}), ("BEGIN", {"transaction": "t"}),
    ("UNSUBSCRIBE", {"id": "1"}), ("DISCONNECT", {}),
]  # fmt: skip


@pytest.mark.parametrize(("command", "headers"), BODILESS, ids=[command for command, _ in BODILESS])
@pytest.mark.parametrize("announced", [True, False])
def test_C13_v12_only_send_may_have_a_body(join, command, headers, announced):
    client = join()
    client.subscribe("/queue/bodiless")
    extra = {"content-length": 4} if announced else {}
    client.send(command, headers | extra | {"receipt": "r"}, b"body")
    error(client, Code.BODY_NOT_ALLOWED, "r")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_C13_older_clients_may_put_a_body_on_subscribe(join, queue, version):
    client = join(version)
    client.ask("SUBSCRIBE", {"id": "1", "destination": queue}, b"ignored")
    client.publish(queue, b"x")
    assert client.read().body == b"x"


@every_version
@pytest.mark.parametrize("body", [b"\0", b"a\0b\0\0", b"\0\nSEND\n\n\0", bytes(range(256)) * 4])
def test_C14_C15_a_body_with_nul_arrives_whole(join, queue, version, body):
    client = join(version)
    client.subscribe(queue)
    client.publish(queue, body)
    client.publish(queue, b"next")
    message = client.read()
    assert message.body == body
    assert message["content-length"] == str(len(body))
    assert client.read().body == b"next"


@every_version
def test_C14_without_content_length_the_body_ends_at_nul(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.ask("SEND", {"destination": queue}, b"text only")
    message = client.read()
    assert message.body == b"text only"
    # A 1.0 client sees by its absence that this is text.
    assert message.get("content-length") == (None if version == "1.0" else "9")


@pytest.mark.parametrize("command", ["SUBSCRIBE", "BEGIN"])
def test_C14_v12_content_length_zero_is_fine_on_any_frame(join, queue, command):
    join().ask(command, {"id": "1", "destination": queue, "transaction": "t", "content-length": 0})


@every_version
@pytest.mark.parametrize("value", ["-1", "+1", "1_0", " 1", "1 ", "x", "", "1.0", "0x1", "١", "1" * 31])
def test_C14_an_invalid_content_length_is_an_error(join, queue, version, value):
    if version == "1.0" and value.strip() == "1":
        pytest.skip("1.0 trims values")
    client = join(version)
    client.send("SEND", {"destination": queue, "content-length": value, "receipt": "r"}, b"x")
    frame = client.expect("ERROR")
    expected = Code.FRAME_TOO_LARGE if len(value) > 30 else Code.BAD_CONTENT_LENGTH
    assert frame["error-code"] in (str(expected.number), str(Code.BAD_CONTENT_LENGTH.number)), frame
    client.ended()


@every_version
def test_C14_a_body_longer_than_announced_is_an_error(join, queue, version):
    client = join(version)
    client.send("SEND", {"destination": queue, "content-length": 2, "receipt": "r"}, b"abc")
    error(client, Code.MISSING_NUL, "r")


@every_version
def test_C14_an_empty_body_is_a_body(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.publish(queue, b"")
    client.ask("SEND", {"destination": queue})
    assert [m.body for m in client.messages(2)] == [b"", b""]


@every_version
def test_C16_content_type_is_passed_on_and_never_invented(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.publish(queue, b"{}", content_type="application/json;charset=utf-8")
    client.publish(queue, b"{}")
    first, second = client.messages(2)
    assert first["content-type"] == "application/json;charset=utf-8"
    assert "content-type" not in second.headers


@every_version
def test_C17_the_first_of_repeated_headers_counts(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    pairs = [("destination", queue), ("foo", "first"), ("foo", "second"), ("destination", queue + ".other")]
    client.ask("SEND", [*pairs, ("content-length", "1"), ("content-length", "9")], b"x")
    message = client.read()
    assert [pair for pair in message.pairs if pair[0] == "foo"] == [("foo", "first")]
    assert [pair for pair in message.pairs if pair[0] == "destination"] == [("destination", queue)]
    assert [pair for pair in message.pairs if pair[0] == "content-length"] == [("content-length", "1")]


@every_version
def test_C17_the_first_receipt_counts(join, queue, version):
    client = join(version)
    client.send("SEND", [("destination", queue), ("receipt", "one"), ("receipt", "two")])
    client.expect("RECEIPT", {"receipt-id": "one"})
    client.nothing()


@every_version
def test_C18_too_many_headers_are_an_error_and_the_end(join, queue, version):
    client = join(version)
    client.ask("SEND", [("destination", queue), *((f"h{n}", n) for n in range(98))])  # with receipt: 100
    client.send("SEND", [("destination", queue), *((f"h{n}", n) for n in range(100))])
    error(client, Code.TOO_MANY_HEADERS)


@every_version
def test_a_header_without_a_colon_is_an_error(join, queue, version):
    client = join(version)
    client.raw(f"SEND\ndestination:{queue}\nnonsense\n\nx\0".encode())
    error(client, Code.MALFORMED_FRAME)


@since_11
def test_a_nul_in_a_header_is_an_error(join, queue, version):
    client = join(version)
    client.raw(f"SEND\ndestination:{queue}\nfoo:a\0b\n\nx\0".encode())
    frame = client.expect("ERROR")
    assert frame["error-code"] == str(Code.MALFORMED_FRAME.number)
    client.ended()


@since_11
def test_a_colon_in_a_value_is_read_leniently_or_refused_but_never_cut(join, queue, version):
    """The 1.1/1.2 grammar wants `\\c`; many clients write the colon. What comes out is the same value, escaped."""
    client = join(version)
    client.subscribe(queue)
    client.send("SEND", {"destination": queue, "url": "http://a:1/b"}, b"x")
    assert client.read()["url"] == r"http\c//a\c1/b"
