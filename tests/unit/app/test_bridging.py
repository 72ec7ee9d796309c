"""A bridge comes into its own broker without a socket."""

from __future__ import annotations

from broker.app.live.bridging import inside_of
from tests.unit.edge.bench import Bench


async def test_without_users_it_is_anonymous():
    bench = Bench()
    pipe = inside_of(bench.edge)("eu", "")
    await pipe.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    assert (await pipe.read()).startswith(b"CONNECTED")
    await pipe.close()
