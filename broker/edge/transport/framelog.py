"""Frames in the log, at DEBUG: client address, connection id, direction, headers, sizes.

Rule: never a passcode, never a body; off means one attribute test per read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from broker.wire.events import Acks, BodyData, BodyStart, Event, Frame, Sends, Violation
from broker.wire.rules import HANDSHAKE, Role

from .channel import Channel

log = logging.getLogger("stampede.frames")
LENGTH = re.compile(rb"^content-length:(\d+)$", re.MULTILINE)
SHOWN = frozenset(
    {"accept-version", "host", "login", "heart-beat", "client-id", "receipt", "request-id", "content-length"}
)
"""Headers of CONNECT whose values are logged: any other may be a passcode under a misspelt name."""
NAMES = tuple(sorted({*SHOWN, "passcode", "password"}, key=len, reverse=True))
"""What is logged of names. Of any other only the known one that it begins with: in `passcode=s3cr3t:1` the secret is in
the name."""


class Subscribed(Protocol):
    """What an acknowledgement is for."""

    @property
    def destination(self) -> bytes: ...


class Logged(Protocol):
    """The connection."""

    channel: Channel

    @property
    def handles(self) -> Mapping[bytes, Subscribed]: ...


def received(session: Logged, events: list[Event]) -> None:
    """One line per frame."""
    channel = session.channel
    for event in events:
        for text in _texts(session, event):
            log.debug("%s #%d > %s", channel.peer, channel.id, text)


def sent(channel: Channel, out: list[bytes]) -> None:
    """One line per frame, however many a piece holds."""
    for piece in out:
        for head, size in _frames(piece):
            log.debug("%s #%d < %s (%d bytes)", channel.peer, channel.id, _one_line(head) or "heart-beat", size)


def _frames(piece: bytes) -> Iterator[tuple[bytes, int]]:
    """Head and body size of each frame in our own writing. Of a large body only the head is here."""
    at, end = 0, len(piece)
    while at < end:
        if piece.startswith(b"\n", at):
            yield b"", 0
            at += 1
            continue
        blank = piece.find(b"\n\n", at)
        if blank < 0:
            return
        head = piece[at:blank]
        length = LENGTH.search(head)
        stop = blank + 2 + int(length[1]) if length else piece.find(b"\0", blank + 2)
        yield head, stop - blank - 2
        at = stop + 1 if stop >= 0 else end


def _texts(session: Logged, event: Event) -> Iterator[str]:
    """The lines of an event."""
    if isinstance(event, Sends):
        lines = event.head.lines
        for record in event.records:
            head, _, body = (lines + record).partition(b"\n\n")
            yield f"SEND {_one_line(head)} ({len(body) - 1} bytes)"
    elif isinstance(event, Acks):
        for id in event.ids:
            sub = session.handles.get(id.rpartition(b"-")[0])
            where = "" if sub is None else f" | destination:{sub.destination.decode(errors='replace')}"
            yield f"ACK id:{id.decode(errors='replace')}{where} (0 bytes)"
    elif text := _text(event):
        yield text


def _text(event: Event) -> str:
    if isinstance(event, Frame):
        shown = event.headers
        if event.command in HANDSHAKE[Role.SERVER]:
            shown = dict([_masked(name, value) for name, value in shown.items()])
        return f"{event.command} {shown} ({len(event.body)} bytes)"
    if isinstance(event, BodyStart):
        return f"{event.command} {_one_line(event.head.lines)} (streamed, {event.length} bytes)"
    if isinstance(event, Violation):
        return f"violation {event.code.name}: {event.detail}"
    if isinstance(event, BodyData):
        return ""
    return "end of streamed body"


def _masked(name: str, value: str) -> tuple[str, str]:
    """A header of CONNECT without what may be a passcode."""
    if name in SHOWN:
        return name, value
    known = next((known for known in NAMES if name.startswith(known)), "")
    return name if name == known else f"{known}***", "***"


def _one_line(head: bytes) -> str:
    return " | ".join(head[:400].decode(errors="replace").strip("\n").split("\n"))
