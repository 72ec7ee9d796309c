"""What is written can be read, by either side, in every version."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.settings import WireSettings
from broker.wire.connection import Connection, Role
from broker.wire.escapes import escape, unescape
from broker.wire.writer import encode_frame, rewrite_lines

from .cutting import V10, V11, V12, logged_in

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=8)
HEADERS = st.dictionaries(TEXT.filter(bool), TEXT, max_size=5)


def connected(version):
    connection = Connection(Role.CLIENT, WireSettings())
    connection.receive(b"CONNECTED\nversion:%b\n\n\0" % version.value.encode())
    return connection


@pytest.mark.parametrize("version", [V11, V12])
def test_server_to_client(version):
    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(HEADERS, st.binary(max_size=20))
    def run(headers, body):
        if version is V11:
            headers = {n: v for n, v in headers.items() if not n.endswith("\r")}
        headers = {"destination": "d", "message-id": "1", "subscription": "s"} | headers
        headers.pop("content-length", None)
        [event] = connected(version).receive(encode_frame("MESSAGE", headers.items(), body, version))
        event.headers.pop("content-length", None)
        assert (event.headers, event.body) == (headers, body)

    run()


@pytest.mark.parametrize("version", [V10, V11, V12])
def test_client_to_server_to_client(version):
    """A SEND of any version, relayed as the server relays it, means the same to a 1.2 subscriber."""

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(HEADERS, st.binary(max_size=20))
    def run(headers, body):
        if version is V10:
            headers = {n.replace(":", ""): v.replace("\n", "").strip(" \t") for n, v in headers.items()}
            headers = {n: v for n, v in headers.items() if n and "\n" not in n}
        headers = {"destination": "d"} | headers
        [event] = logged_in(version).receive(encode_frame("SEND", headers.items(), body, version))
        message = b"MESSAGE\nsubscription:s\nmessage-id:1\n" + event.head.lines + event.records[0]
        [seen] = connected(V12).receive(message)
        assert seen.body == body
        for name, value in headers.items():
            if name not in ("receipt", "transaction", "ack", "content-length"):
                assert seen.headers[name] == value

    run()


@pytest.mark.parametrize("version", [V11, V12])
def test_unescape_undoes_escape(version):
    for text in ("", "a", "\\", "\\n", ":\n\\c", "\\\\r", "\n\n", "x:y"):
        assert unescape(escape(text, version), version) == text


def test_escape_v12_of_cr():
    assert escape("a\rb", V12) == "a\\rb"
    assert escape("a\rb", V11) == "a\rb"


def test_content_length_is_not_given_twice():
    assert encode_frame("SEND", [("content-length", "2")], b"ab", V12) == b"SEND\ncontent-length:2\n\nab\0"


LINES = b"a:b\\cc\nd:x\\\\r\\r\\n\nn\\cm:1\nplain:1\n"


def test_rewrite_for_v12_is_the_identity():
    assert rewrite_lines(LINES, V12) is LINES


def test_rewrite_for_v11():
    assert rewrite_lines(LINES, V11) == b"a:b\\cc\nd:x\\\\r\r\\n\nn\\cm:1\nplain:1\n"


def test_rewrite_for_v10():
    # A line end cannot be shown, and a colon in a name would make it another name.
    assert rewrite_lines(LINES, V10) == b"a:b:c\nd:x\\r\r \nn m:1\nplain:1\n"


@pytest.mark.parametrize("version", [V10, V11])
def test_rewrite_leaves_the_body_alone(version):
    body = b"content-length:4\n\n\\c\\r\0"
    assert rewrite_lines(b"x:1\n" + body, version) == b"x:1\n" + body
    assert rewrite_lines(b"x:\\r\n" + body, version) == b"x:\r\n" + body


def test_rewritten_lines_read_the_same_in_v11():
    [event] = connected(V11).receive(
        b"MESSAGE\ndestination:d\nmessage-id:1\nsubscription:s\n" + rewrite_lines(LINES + b"\n\0", V11)
    )
    assert event.headers["a"] == "b:c"
    assert event.headers["d"] == "x\\r\r\n"
    assert event.headers["n:m"] == "1"
