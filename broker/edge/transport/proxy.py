"""The PROXY protocol, versions 1 and 2: which client a balancer talks to us for.

https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt. The header comes before everything else, TLS included, so
exactly its bytes are taken from the socket and not one more.

Rule: strict: what is not a header of the specification ends the connection, since what is written here says who the
client is. TLVs of version 2 are skipped. Knows no STOMP.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from broker.core.errors import BrokerError
from broker.core.strict_numbers import natural

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
"""The first bytes of version 2."""
LONGEST_LINE = 107
"""Bytes of the longest line of version 1, its CR LF included."""
LONGEST_BLOCK = 4096
"""Bytes of addresses and TLVs of version 2 that we take; the specification wants 536 at least to be taken."""
_FIXED = {1: 12, 2: 36}
"""Address family of version 2 → bytes of two addresses and two ports."""
UNKNOWN = ""
"""The header tells no address (LOCAL, UNKNOWN): the socket's own is used."""


class BadHeader(BrokerError):
    """Not a PROXY header."""


def parse_line(line: bytes) -> str:
    """The peer (`1.2.3.4:5678`, `[::1]:5678`) of a version 1 header, CR LF included, or UNKNOWN. Raises BadHeader."""
    if not line.endswith(b"\r\n") or len(line) > LONGEST_LINE or not line.isascii():
        raise BadHeader("the PROXY line does not end with CR LF within 107 bytes")
    words = line[:-2].decode().split(" ")
    if words[0] != "PROXY":
        raise BadHeader("the connection does not begin with a PROXY header")
    if len(words) > 1 and words[1] == "UNKNOWN":
        return UNKNOWN
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise BadHeader("the PROXY line is not `PROXY TCP4|TCP6 SOURCE DESTINATION PORT PORT`")
    version = 4 if words[1] == "TCP4" else 6
    source, _ = _address(words[2], version), _address(words[3], version)
    port, _ = _port(words[4]), _port(words[5])
    return _peer(source, port)


def parse_block(head: bytes, block: bytes) -> str:
    """The same of a version 2 header: its first 16 bytes, and what they announce. Raises BadHeader."""
    version, command = head[12] >> 4, head[12] & 15
    family, transport = head[13] >> 4, head[13] & 15
    if version != 2 or command not in (0, 1):
        raise BadHeader(f"PROXY version {version}, command {command}: neither LOCAL nor PROXY of version 2")
    if command == 0 or family not in _FIXED:
        return UNKNOWN
    if transport != 1:
        raise BadHeader("PROXY for something else than a TCP stream")
    if len(block) < _FIXED[family]:
        raise BadHeader("the PROXY header is too short for its addresses")
    size = 4 if family == 1 else 16
    port = int.from_bytes(block[2 * size : 2 * size + 2], "big")
    return _peer(ipaddress.ip_address(block[:size]), port)


def _address(text: str, version: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        # A zone (fe80::1%eth0) means something on the balancer's machine only.
        return ipaddress.IPv4Address(text) if version == 4 else ipaddress.IPv6Address(text.replace("%", " "))
    except ValueError:
        raise BadHeader(f"{text[:50]!r} in the PROXY line is no IPv{version} address") from None


def _port(text: str) -> int:
    found = natural(text, 5)
    if found is None or found > 65535 or text != str(found):
        raise BadHeader(f"{text[:10]!r} in the PROXY line is no port")
    return found


def _peer(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    mapped = getattr(address, "ipv4_mapped", None)
    if address.version == 4 or mapped is not None:
        return f"{mapped or address}:{port}"
    return f"[{address}]:{port}"


async def read_header(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> str | None:
    """Takes the header from a fresh socket. None: the peer closed without a byte (balancers look in like that).

    Raises BadHeader, and OSError when the socket breaks."""
    head = await _exactly(loop, sock, len(SIGNATURE), first=True)
    if not head:
        return None
    if head == SIGNATURE:
        head += await _exactly(loop, sock, 4)
        length = int.from_bytes(head[14:16], "big")
        if length > LONGEST_BLOCK:
            raise BadHeader(f"the PROXY header has {length} bytes; {LONGEST_BLOCK} are taken")
        return parse_block(head, await _exactly(loop, sock, length))
    if not head.startswith(b"PROXY "):
        raise BadHeader("the connection does not begin with a PROXY header; is the balancer told to send one?")
    while not head.endswith(b"\n") and len(head) < LONGEST_LINE:
        head += await _exactly(loop, sock, 1)
        if not head.endswith(b"\n"):
            head += _rest_of_line(sock, LONGEST_LINE - len(head))
    return parse_line(head)


async def _exactly(loop: asyncio.AbstractEventLoop, sock: socket.socket, count: int, first: bool = False) -> bytes:
    """So many bytes; b"" when the peer closed before the `first`. Raises BadHeader when it closes later."""
    data = b""
    while len(data) < count:
        piece = await loop.sock_recv(sock, count - len(data))
        if not piece:
            if data or not first:
                raise BadHeader("the connection ended inside its PROXY header")
            return b""
        data += piece
    return data


def _rest_of_line(sock: socket.socket, most: int) -> bytes:
    """What has come of the line, up to its LF."""
    try:
        seen = sock.recv(max(most, 0), socket.MSG_PEEK)
        return sock.recv(seen.find(b"\n") + 1 or len(seen))
    except BlockingIOError:
        return b""
