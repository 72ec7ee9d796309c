"""Where a stream ends is asked before a SUBSCRIBE that begins there goes on."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.core.errors import Code, RefusedError
from broker.edge.destinations.dialect import Homes
from broker.edge.destinations.dialects.rabbitmq import RabbitMQ
from broker.edge.subscribing.stream_ends import StreamEnds
from broker.wire.events import Frame

STREAMS = {
    "stream": AddressSettings(non_destructive=True),
    "parts": AddressSettings(non_destructive=True, partitions=2),
    "values": AddressSettings(non_destructive=True, last_value=True),
}
DIALECT = RabbitMQ(".", Homes(), lambda name: STREAMS.get(name, AddressSettings()), {})


class Session:
    """A connection that keeps frames while it waits."""

    def __init__(self) -> None:
        self.closed = False
        self.told: list[object] = []
        self.inbound = self.entrance = self
        self.dialect = DIALECT

    def park(self) -> None:
        self.told.append("waits")

    def unpark(self) -> None:
        self.told.append("goes on")

    def fail(self, code: Code, detail: str, receipt: bytes | None = None) -> None:
        self.told += [code, receipt]

    def fault(self) -> None:
        self.told.append("fault")


def frame() -> Frame:
    return Frame("SUBSCRIBE", {"destination": "/queue/stream", "x-stream-offset": "last"}, b"", b"r")


def asked(find, session: Session) -> Frame:
    ends, request = StreamEnds(), frame()
    ends.found_by(find)
    ends.ask(session, request, "stream", lambda: session.told.append(request.headers["x-stream-offset"]))  # type: ignore[arg-type]
    return request


def test_it_goes_on_with_the_number_at_once_or_later():
    def at_once(address, found, done):
        found(7)
        done(None)

    session = Session()
    asked(at_once, session)
    assert session.told == ["offset=7"]

    later = []
    session = Session()
    asked(lambda address, found, done: later.append((found, done)), session)
    assert session.told == ["waits"]
    later[0][0](0)
    later[0][1](None)
    assert session.told == ["waits", "offset=0", "goes on"]


def test_who_cannot_be_told_is_refused_and_who_has_gone_is_not_asked_for():
    later = []
    session, gone = Session(), Session()
    for each in (session, gone):
        asked(lambda address, found, done: later.append(done), each)
    gone.closed = True
    for done in later:
        done(RefusedError(Code.OWNER_UNAVAILABLE, "x"))
    assert session.told == ["waits", Code.OWNER_UNAVAILABLE, b"r"] and gone.told == ["waits"]
    with pytest.raises(RefusedError, match="is not asked here"):
        StreamEnds().ask(session, frame(), "stream", lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("destination", "offset", "address"),
    [
        ("/queue/stream", "last", "stream"), ("stream", " last ", "stream"), ("/queue/stream", "first", None),
        ("/queue/parts", "last", None), ("/queue/values", "last", None), ("/queue/plain", "last", None),
        ("/topic/stream", "last", None), ("/reply-queue/x", "last", None),
    ],
)  # fmt: skip
def test_only_a_stream_of_one_part_has_one_end(destination: str, offset: str, address: str | None):
    assert DIALECT.from_end({"destination": destination, "x-stream-offset": offset}) == address
