"""Heart-beat arithmetic and the two clocks of a connection.

C31: client → server every MAX(cx, sy), server → client every MAX(sx, cy); 0 on either side = none.
Rule: pure arithmetic; the session asks the timers.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.config.settings import EdgeSettings


class HeartBeat(NamedTuple):
    """Milliseconds. `reply` is the CONNECTED header; 0 = none."""

    send_ms: int
    expect_ms: int
    reply: str


def negotiate(header: str | None, settings: EdgeSettings) -> HeartBeat:
    """What both sides keep to. The header's syntax has been checked by the wire (C29).

    We promise no more often than heartbeat_min_ms, and ask for exactly what the client offers, but no
    finer than heartbeat_min_ms either."""
    offered, wanted = (int(n) for n in (header or settings.default_heartbeat).split(","))
    floor = settings.heartbeat_min_ms
    send = max(wanted, floor) if wanted else 0
    expect = max(offered, floor) if offered else 0
    return HeartBeat(send, expect, f"{send},{expect}")
