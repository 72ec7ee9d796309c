"""Where a large send comes from: its length is known before its first piece, and must be true."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from broker.client import ClientError, ConnectionLost, connect, source
from broker.client.source import FILE_PIECE, Source, open_source
from broker.seams.files import OsFile, temporary_file
from tests.harness.fake_server import FakeServer

BIG = os.urandom(1 << 20) * 3


async def pieces_of(body, size=100_000):
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("length", [None, len(BIG)])
async def test_stream_with_and_without_a_length(length):
    async with FakeServer() as server, connect(server.url) as client:
        await client.send_file("/queue/big", pieces_of(BIG), length, {"k": "v"})
        ((headers, body),) = server.frames("SEND")
        assert body == BIG and headers["k"] == "v"


@pytest.mark.parametrize("length", [len(BIG) - 1, len(BIG) + 1])
async def test_a_stream_of_another_length_ends_the_connection(length):
    async with FakeServer() as server:
        client = await connect(server.url)
        with pytest.raises(ClientError, match="does not match"):
            await client.send_file("/queue/big", pieces_of(BIG), length)
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", b"")
        await client.close()


async def test_unreadable_file_leaves_the_connection_alone(tmp_path):
    async with FakeServer() as server, connect(server.url) as client:
        with pytest.raises(ClientError, match="cannot read"):
            await client.send_file("/queue/a", tmp_path / "none")
        await client.send("/queue/a", b"", receipt=True)


async def whole(source: Source) -> bytes:
    return b"".join([piece async for piece in source.pieces()])


async def test_a_file_is_as_long_as_it_was_when_it_was_opened(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(BIG[: FILE_PIECE + 5])
    made = await open_source(path, None)
    assert made.length == FILE_PIECE + 5
    with path.open("ab") as more:
        more.write(b"later")
    assert await whole(made) == BIG[: FILE_PIECE + 5]
    path.write_bytes(b"shrunk")
    assert await whole(made) == b"shrunk", "fewer than its length, which its reader notices"
    made.close()
    made.close()


async def test_a_file_has_its_own_length(tmp_path):
    with pytest.raises(ClientError, match="length is for streams"):
        await open_source(str(tmp_path / "f"), 3)


async def test_a_stream_of_unknown_length_is_measured_first_and_one_of_known_length_is_not():
    asked: list[int] = []

    async def stream(n: int) -> AsyncIterator[bytes]:
        for piece in (b"ab", b"", b"c"):
            asked.append(n)
            yield piece

    known = await open_source(stream(1), 3)
    assert (known.length, asked) == (3, [])
    measured = await open_source(stream(2), None)
    assert (measured.length, asked) == (3, [2, 2, 2])
    assert await whole(measured) == await whole(known) == b"abc"
    measured.close()


async def test_a_stream_that_breaks_while_it_is_measured_leaves_no_file(monkeypatch):
    files: list[OsFile] = []
    monkeypatch.setattr(source, "temporary_file", lambda: files.append(temporary_file()) or files[-1])

    async def stream() -> AsyncIterator[bytes]:
        yield b"a"
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await open_source(stream(), None)
    with pytest.raises(OSError):
        files[0].size()
