"""Headers and bodies made ready for the wire: what cannot be sent is refused by the header's name."""

from __future__ import annotations

import pytest

from broker.client import ClientError, connect
from broker.client.frames import octets, refuse_nul, send_headers, sends
from broker.wire.versions import Version
from broker.wire.writer import encode_frame
from tests.harness.fake_server import FakeServer


async def test_runs_are_sent_as_they_would_be_one_by_one():
    """Also empty bodies, bodies with NUL, headers to be escaped; a NUL in a header sends nothing of its run."""
    bodies = [b"", b"a\0b", b"x" * 300_000, "grüße".encode()]
    lines = [("destination", "/queue/a"), ("k", "v:w")]
    async with FakeServer() as server, connect(server.url) as client:
        await client.send_runs([(lines, bodies), ([("destination", "/queue/b")], [b"1"])])
        for body in bodies:
            await client.send("/queue/a", body, {"k": "v:w"})
        await client.send("/queue/b", b"1", receipt=True)
        frames = server.frames("SEND")
        assert [body for _, body in frames] == [*bodies, b"1"] * 2
        first, second = ([without_length(headers) for headers, _ in part] for part in (frames[:5], frames[5:]))
        assert first == second
        with pytest.raises(ClientError, match="NUL"):
            await client.send_runs([([("destination", "/queue/a"), ("k", "\0")], [b"no"])])
        await client.send("/queue/b", b"2", receipt=True)
        assert len(server.frames("SEND")) == 11


def without_length(headers):
    return {name: value for name, value in headers.items() if name not in ("content-length", "receipt")}


async def test_headers_of_the_client_cannot_be_given_twice():
    async with FakeServer() as server, connect(server.url) as client:
        for name in ("destination", "receipt", "content-length", "transaction"):
            with pytest.raises(ClientError, match=name):
                await client.send("/queue/a", b"", {name: "1"})


async def test_a_nul_in_a_header_cannot_cut_a_frame():
    async with FakeServer() as server, connect(server.url) as client:
        with pytest.raises(ClientError, match="NUL"):
            await client.send("/queue/a", b"", {"x": "a\0SEND\ndestination:/queue/b\n\n\0"})


def test_own_headers_are_refused_by_name_and_others_stand_behind_the_destination():
    assert send_headers("/q", None) == send_headers("/q", {}) == [("destination", "/q")]
    assert send_headers("/q", {"b": "1", "a": "2"}) == [("destination", "/q"), ("b", "1"), ("a", "2")]
    with pytest.raises(ClientError, match=r"arguments of the call: content-length, receipt$"):
        send_headers("/q", {"receipt": "1", "x": "y", "content-length": "2"})


@pytest.mark.parametrize("pair", [("a\0", "b"), ("a", "\0")])
def test_a_nul_is_refused_on_either_side(pair):
    with pytest.raises(ClientError, match="NUL"):
        refuse_nul([("fine", "too"), pair])


def test_lists_of_frames_have_about_as_many_bytes_as_asked_for():
    runs = [([("destination", "/q")], [b"x" * 40] * 5), ([("destination", "/r")], [b"", b"\0"])]
    parts = list(sends(runs, Version.V12, 100))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert b"".join(frame for part in parts for frame in part) == b"".join(
        encode_frame("SEND", [*lines, ("content-length", str(len(body)))], b"", Version.V12)[:-1] + body + b"\0"
        for lines, bodies in runs
        for body in bodies
    )
    assert list(sends([], Version.V12, 100)) == []
    assert octets("ü") == b"\xc3\xbc" and octets(b"\xff") == b"\xff"
