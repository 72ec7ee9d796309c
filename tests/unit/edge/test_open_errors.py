"""Which refusals leave a connection open, for those who count on it: such as have changed nothing."""

from __future__ import annotations

import pytest

from broker.core.errors import Code
from broker.edge.session.told.open_errors import SURVIVED, to_be_told
from broker.wire.events import Frame, Head, Sends


def sends(receipts: list[bytes] | None, **headers: str) -> Sends:
    return Sends(Head(b"", headers, 0, False), [b"\n\0", b"\n\0"], receipts, 4)


@pytest.mark.parametrize("code", sorted(SURVIVED, key=lambda code: code.name))
def test_each_frame_that_asked_gets_its_error(code):
    assert to_be_told(sends([b"1", b"2"]), code) == [b"1", b"2"]
    assert to_be_told(sends(None), code) == [None]
    assert to_be_told(Frame("SUBSCRIBE", {}, b"", b"7"), code) == [b"7"]


def test_what_others_may_depend_on_ends_the_connection():
    assert to_be_told(sends([b"1"], transaction="t"), Code.BAD_DESTINATION) == []
    for command in ("ACK", "NACK"):
        assert to_be_told(Frame(command, {}, b"", None), Code.BAD_HEADER) == []
    for code in set(Code) - SURVIVED:
        assert to_be_told(sends(None), code) == []
