"""Frames in the log, at DEBUG: client address, connection id, direction, headers, sizes.

Rule: never a passcode, never a body; off means one attribute test per read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.wire.events import Acks, BodyData, BodyStart, Event, Frame, Sends, Violation
from broker.wire.rules import HANDSHAKE, Role

if TYPE_CHECKING:
    from .channel import Channel

log = logging.getLogger("stampede.frames")
SHOWN = frozenset(
    {"accept-version", "host", "login", "heart-beat", "client-id", "receipt", "request-id", "content-length"}
)
"""Headers of CONNECT whose values are logged: any other may be a passcode under a misspelt name."""


def received(channel: Channel, events: list[Event]) -> None:
    """One line per event."""
    for event in events:
        text = _text(event)
        if text:
            log.debug("%s #%d > %s", channel.peer, channel.id, text)


def sent(channel: Channel, out: list[bytes]) -> None:
    """One line per write: the first frame's head and the size of all."""
    head, _, _ = out[0][:400].partition(b"\n\n")
    size = sum(map(len, out))
    log.debug("%s #%d < %s (%d bytes)", channel.peer, channel.id, _one_line(head), size)


def _text(event: Event) -> str:
    if isinstance(event, Sends):
        return f"{len(event.records)} × SEND {_one_line(event.head.lines)} ({event.nbytes} bytes)"
    if isinstance(event, Acks):
        return f"{len(event.ids)} × ACK {event.ids[0].decode(errors='replace')} …"
    if isinstance(event, Frame):
        shown = event.headers
        if event.command in HANDSHAKE[Role.SERVER]:
            shown = {name: value if name in SHOWN else "***" for name, value in shown.items()}
        return f"{event.command} {shown} ({len(event.body)} bytes)"
    if isinstance(event, BodyStart):
        return f"{event.command} {_one_line(event.head.lines)} (streamed, {event.length} bytes)"
    if isinstance(event, Violation):
        return f"violation {event.code.name}: {event.detail}"
    if isinstance(event, BodyData):
        return ""
    return "end of streamed body"


def _one_line(head: bytes) -> str:
    return " | ".join(head[:400].decode(errors="replace").strip("\n").split("\n"))
