"""WebSocket clients for tests of the shell: frames as bytes, and a raw socket that sends what it is told."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace

from tests.harness.shells import OFF, closed

WS = replace(OFF, ws_port=0)
STOMP = ["v10.stomp", "v11.stomp", "v12.stomp"]
TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10


def url(listeners: object, path: str = "/") -> str:
    return f"ws://127.0.0.1:{listeners.ports['ws']}{path}"


def masked(opcode: int, payload: bytes, fin: bool = True, rsv1: bool = False, mask: bool = True) -> bytes:
    """A client frame. The masking key is zero, so the payload stays readable."""
    first = opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    bit, key = (0x80, b"\0\0\0\0") if mask else (0, b"")
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", first, bit | length)
    elif length < 65536:
        head = struct.pack("!BBH", first, bit | 126, length)
    else:
        head = struct.pack("!BBQ", first, bit | 127, length)
    return head + key + payload


class Raw:
    """A WebSocket client that sends what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, listeners: object, *headers: str, greet: bool = True) -> Raw:
        raw = cls(*await asyncio.open_connection("127.0.0.1", listeners.ports["ws"]))
        if greet:
            assert "101" in (await raw.request(*headers)).splitlines()[0]
        return raw

    async def request(self, *headers: str, path: str = "/") -> str:
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
        lines = [f"GET {path} HTTP/1.1", "Host: h", "Upgrade: websocket", "Connection: Upgrade", key]
        self.writer.write("\r\n".join([*lines, "Sec-WebSocket-Version: 13", *headers, "", ""]).encode())
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def frame(self) -> tuple[int, bytes]:
        """(first byte, payload) of the next server frame, which must not be masked."""
        first, length = await self.reader.readexactly(2)
        assert length < 128
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
        return first, await self.reader.readexactly(length)

    async def close_code(self) -> int:
        """Skips to the close frame, answers it, and sees the connection end."""
        while True:
            first, payload = await self.frame()
            if first == 0x80 | CLOSE:
                break
        self.writer.write(masked(CLOSE, payload))
        assert await self.reader.read() == b""
        await closed(self.writer)
        return struct.unpack("!H", payload[:2])[0]
