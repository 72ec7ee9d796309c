"""The reading half: a mistake of ours while reading ends one connection, by name."""

from __future__ import annotations

from typing import Any

from broker.core.reasons import Reason

from .bench import Bench


async def test_a_mistake_while_reading_ends_the_connection_by_name(caplog: Any) -> None:
    bench = Bench()
    session, wire = bench.session()
    session.wire = None  # type: ignore[assignment]
    session.receive(b"SEND\n")
    assert wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.INTERNAL: 1}
