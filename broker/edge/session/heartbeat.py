"""Heart-beat arithmetic: what CONNECTED promises, and how long a client may be silent (its TTL).

Rule: pure; Artemis' formulas to the millisecond (a table test holds them). The session asks the timers.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

from broker.config.acceptor import AcceptorSettings

NEVER = 0
"""A TTL of silence for ever, and a heart-beat that is not sent."""


class HeartBeat(NamedTuple):
    """Milliseconds. `send_ms`: how often we send; `ttl_ms`: silence after which the client counts as dead; `reply`:
    the CONNECTED header, None where the client sent none."""

    send_ms: int
    ttl_ms: int
    reply: str | None


def negotiate(header: str | None, acceptor: AcceptorSettings, least_ms: int) -> HeartBeat:
    """What both sides keep to. The header's syntax has been checked by the wire (C29).

    `header`: None from 1.0 clients and those that sent none: they are treated as if they had sent default_heartbeat,
    but get no answer to it. `least_ms`: we promise to send no more often."""
    offered, wanted = (int(n) for n in (acceptor.default_heartbeat if header is None else header).split(","))
    send = max(wanted, least_ms) if wanted else NEVER
    ttl, expect = _ttl(offered, acceptor)
    return HeartBeat(send, ttl, None if header is None else f"{send},{expect}")


def _ttl(offered: int, acceptor: AcceptorSettings) -> tuple[int, int]:
    """(TTL, how often we want to hear of the client). The floor is looked at before the ceiling, as Artemis does."""
    modifier = acceptor.heartbeat_to_ttl_modifier
    if not offered:
        ttl = max(acceptor.connection_ttl_ms, NEVER)
        return ttl, floor(ttl / modifier)
    ttl = floor(offered * modifier)
    if ttl < acceptor.connection_ttl_min_ms:
        return acceptor.connection_ttl_min_ms, floor(acceptor.connection_ttl_min_ms / modifier)
    if ttl > acceptor.connection_ttl_max_ms:
        return acceptor.connection_ttl_max_ms, floor(acceptor.connection_ttl_max_ms / modifier)
    return ttl, offered
