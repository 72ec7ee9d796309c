"""Bodies that rest compressed: what goes in comes out, a piece in memory at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from zlib import compress

import pytest

from broker.core.message import BLOB, Blob, Run
from broker.edge.session import compressing
from broker.edge.session.compressing import Deflating, Inflating, length_of
from broker.edge.transport.timers import TimerWheel


class File:
    """A file as its writer and its reader know it."""

    pending = 0

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.synced: bool | None = None
        self.largest = 0

    def write(self, data: bytes) -> None:
        self.data += data

    def finish(self, sync: bool, done: Callable[[Blob | None, str], None]) -> None:
        self.synced = sync
        done(Blob(1, len(self.data)), "")

    def abort(self) -> None:
        self.data = b""

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None:
        data, self.data = self.data[:n], self.data[n:]
        done(data, "")

    def close(self) -> None: ...


def stored(*pieces: bytes) -> tuple[File, Blob]:
    file, blobs = File(), []
    writer = Deflating(file)
    for piece in pieces:
        writer.write(piece)
    writer.finish(True, lambda blob, why: blobs.append(blob))
    assert file.synced is True
    return file, blobs[0]


async def read_back(file: File, length: int, most: int = 100_000) -> bytes:
    reader = Inflating(file, TimerWheel(asyncio.get_running_loop()))
    out = b""
    while len(out) < length:
        came: asyncio.Future[tuple[bytes | None, str]] = asyncio.get_running_loop().create_future()
        reader.read(min(most, length - len(out)), lambda data, why, to=came: to.set_result((data, why)))
        data, why = await came
        assert data, why
        assert len(data) <= most
        out += data
    return out


@pytest.mark.parametrize("kind", ["text", "zeros", "noise"])
async def test_what_goes_in_comes_out(kind: str) -> None:
    noise = random.Random(1).randbytes(500_000)
    body = {"text": b"lorem ipsum dolor " * 50_000, "zeros": bytes(20_000_000), "noise": noise}[kind]
    file, blob = stored(body[:1000], body[1000:])
    assert blob.length != len(body)
    assert blob.length < len(body) // 20 or kind == "noise"
    assert await read_back(file, len(body)) == body


async def test_a_file_is_never_as_long_as_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length alone says that it is compressed."""

    class Same:
        def compress(self, data: bytes) -> bytes:
            return b""

        def flush(self) -> bytes:
            return body

    body = compress(b"some body")
    monkeypatch.setattr(compressing, "compressobj", lambda level: Same())
    _, blob = stored(bytes(len(body)))
    assert blob.length == len(body) + 1


async def test_a_small_file_that_inflates_to_much_is_read_in_pieces() -> None:
    file, blob = stored(bytes(50_000_000))
    assert blob.length < 500_000
    assert await read_back(file, 50_000_000, most=1_000_000) == bytes(50_000_000)


@pytest.mark.parametrize("damage", [b"", b"no zlib at all"])
async def test_a_damaged_file_is_said_to_be_one(damage: bytes) -> None:
    with pytest.raises(AssertionError):
        await read_back(File(damage), 10)


def test_the_length_of_a_body_stands_in_its_record() -> None:
    record = b"_AMQ_ORIG_MESSAGE_ID:7\ncontent-length:123456\n\n"
    assert length_of(Run(range(1), b"", [record], 10, BLOB, blob=Blob(1, 5))) == 123_456
