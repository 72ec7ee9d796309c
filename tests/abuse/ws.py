"""A WebSocket client that sends any frame, right or wrong (RFC 6455 §5.2), over a blocking socket.

Rule: shows what came as (opcode, payload); knows nothing of STOMP.
"""

from __future__ import annotations

import os
import socket
import struct

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def frame(opcode: int, payload: bytes, *, fin: bool = True, mask: bool = True, rsv: int = 0, length: int = -1) -> bytes:
    """One frame. `length` ≥ 0: what the head claims, whatever the payload is."""
    size = len(payload) if length < 0 else length
    first, bit = opcode | (0x80 if fin else 0) | rsv << 4, 0x80 if mask else 0
    if size < 126:
        head = struct.pack("!BB", first, bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, bit | 127, size)
    return head + (b"\0\0\0\0" if mask else b"") + payload  # a mask of zeros changes nothing


class WebSocket:
    """One connection. `status`: of the HTTP answer; `head`: its header block."""

    def __init__(self, port: int, path: str = "/", timeout: float = 10.0, **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._buffer = bytearray()
        lines = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade"}
        lines |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        self.send(f"GET {path} HTTP/1.1\r\n{text}\r\n".encode())
        while b"\r\n\r\n" not in self._buffer and self._fill():
            pass
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        self.head = head.decode()
        self.status = int(head.split(b" ", 2)[1]) if head else 0
        self._buffer = bytearray(rest)

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # what the broker said before it closed is still to be read

    def stomp(self, data: bytes, opcode: int = TEXT) -> None:
        """One message, masked as a client must."""
        mask = os.urandom(4)
        body = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)) if len(data) < 10_000 else data
        whole = frame(opcode, body)
        if body is not data:
            cut = len(whole) - len(body)
            whole = whole[: cut - 4] + mask + body
        self.send(whole)

    def connect(self) -> None:
        """CONNECT and CONNECTED."""
        self.stomp(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        opcode, payload = self.read()
        assert payload.startswith(b"CONNECTED"), (opcode, payload)

    def read(self) -> tuple[int, bytes]:
        """The next frame. (CLOSE, b"") also stands for an end without a close frame."""
        while True:
            if len(self._buffer) >= 2:
                first, size, start = self._buffer[0], self._buffer[1] & 0x7F, 2
                if size == 126 and len(self._buffer) >= 4:
                    size, start = struct.unpack_from("!H", self._buffer, 2)[0], 4
                elif size == 127 and len(self._buffer) >= 10:
                    size, start = struct.unpack_from("!Q", self._buffer, 2)[0], 10
                if (start > 2 or size < 126) and len(self._buffer) >= start + size:
                    payload = bytes(self._buffer[start : start + size])
                    del self._buffer[: start + size]
                    return first & 0x0F, payload
            if not self._fill():
                return CLOSE, b""

    def closed(self) -> tuple[int, list[bytes]]:
        """(close code, what came before it): reads to the end. Code 0: there was no close frame."""
        before: list[bytes] = []
        while True:
            opcode, payload = self.read()
            if opcode == CLOSE:
                code = struct.unpack_from("!H", payload)[0] if payload else 0
                self.send(frame(CLOSE, payload[:2]))
                return code, before
            before.append(payload)

    def _fill(self) -> bool:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._buffer += data
        return bool(data)
