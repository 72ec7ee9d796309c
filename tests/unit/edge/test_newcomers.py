"""Who comes when all places are taken: told why, let in for somebody who has said nothing, or neither."""

from __future__ import annotations

import pytest

from broker.core.reasons import Reason
from broker.edge.edge import OVERFLOW

from .bench import Bench, Wire


async def test_far_beyond_the_connection_limit_nobody_is_told_why() -> None:
    bench = Bench(max_connections=2)
    wires = [bench.session()[1], bench.session()[1]]
    for _ in range(OVERFLOW + 3):
        wires.append(Wire())
        bench.edge.open(wires[-1])
    assert [wire.closed for wire in wires[:2]] == [None, None]
    assert {wire.closed for wire in wires[2 : 2 + OVERFLOW]} == {Reason.CONNECTION_LIMIT}
    assert all(b"error-code:1501" in wire.sent for wire in wires[2 : 2 + OVERFLOW])
    assert [(wire.closed, wire.sent) for wire in wires[2 + OVERFLOW :]] == [("aborted", b"")] * 3


class Stranger(Wire):
    """Goes at once when it is aborted."""

    def __init__(self, peer: str) -> None:
        super().__init__()
        self.peer = peer

    def arrive(self, bench: Bench) -> Stranger:
        self.session = bench.edge.open(self)
        return self

    def log_in(self) -> None:
        self.session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert self.take().startswith(b"CONNECTED")

    def abort(self) -> None:
        super().abort()
        self.session.lost()


@pytest.mark.parametrize("limit", [{"max_connections": 5}, {"max_connections_per_ip": 5}])
async def test_who_has_not_logged_in_gives_way_to_newcomers(limit: dict[str, int]) -> None:
    """Or 20,000 silent sockets would close the ports without TLS."""
    bench = Bench(**limit)
    one = Stranger("10.0.0.1:1").arrive(bench)
    one.log_in()
    silent = [Stranger(f"10.0.0.1:{n}").arrive(bench) for n in range(2, 6)]
    late = Stranger("10.0.0.1:9").arrive(bench)
    late.log_in()
    assert [wire.closed for wire in (one, *silent, late)] == [None, "aborted", None, None, None, None]
    for n in range(20):
        silent.append(Stranger(f"10.0.0.1:{100 + n}").arrive(bench))
    assert (one.closed, late.closed, len(bench.edge.sessions)) == (None, None, 5)
    assert [wire.closed for wire in silent[-3:]] == [None] * 3
    for wire in silent[-3:]:
        wire.log_in()
    refused = Stranger("10.0.0.1:7").arrive(bench)
    assert refused.closed is Reason.CONNECTION_LIMIT and b"error-code:1501" in refused.sent
    assert len(bench.edge.strangers) == 0


async def test_the_address_with_the_most_strangers_gives_way_first() -> None:
    bench = Bench(max_connections=6)
    other = Stranger("10.0.0.2:1").arrive(bench)
    silent = [Stranger(f"10.0.0.1:{n}").arrive(bench) for n in range(5)]
    for n in range(10):
        silent.append(Stranger(f"10.0.0.1:{100 + n}").arrive(bench))
    assert other.closed is None
    other.log_in()
