"""Plain ACKs: an id that no message can have is refused."""

from __future__ import annotations

import pytest

from broker.core.reasons import Reason

from .bench import Bench


@pytest.mark.parametrize("frame", [b"ACK\nid:%b\n\n\0", b"NACK\nid:%b\n\n\0", b"ACK\nid:%b\ntransaction:t\n\n\0"])
async def test_an_ack_of_a_number_with_thousands_of_digits_is_refused(frame: bytes) -> None:
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + frame % (b"boot-%d-%b" % (consumer, b"1" * 5000)))
    assert b"error-code:1309" in wire.sent
    assert wire.closed is Reason.REFUSED
