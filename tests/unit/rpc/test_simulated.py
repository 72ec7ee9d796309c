"""What simulations put in the place of the network has what the real one has: else all of them fail for a name.

Rule: of both ends of streams each public method, with the parameters that it is called with. How simulated ends behave
is their own affair.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from broker.rpc.dialer import GrpcDialer
from broker.rpc.server import GrpcServer
from tests.sim.cluster_processes import Dialer, Server


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def missing(real: type, simulated: type) -> list[str]:
    """What of the real one cannot be called of the other."""
    have, found = public(simulated), []
    for name, method in public(real).items():
        if name not in have:
            found.append(f"{real.__name__}.{name}: {simulated.__name__} has none")
        elif list(inspect.signature(method).parameters) != list(inspect.signature(have[name]).parameters):
            found.append(f"{real.__name__}.{name}{inspect.signature(method)}: {inspect.signature(have[name])}")
        elif inspect.iscoroutinefunction(method) != inspect.iscoroutinefunction(have[name]):
            found.append(f"{real.__name__}.{name}: one is awaited, the other is not")
    return found


@pytest.mark.parametrize(("real", "simulated"), [(GrpcServer, Server), (GrpcDialer, Dialer)])
def test_a_simulated_end_has_each_method_of_the_real_one(real: type, simulated: type) -> None:
    assert not missing(real, simulated), "add it to tests/sim/cluster_processes.py, or all simulations fail"


def test_one_that_lacks_a_method_is_seen() -> None:
    class Older(Server):
        stop = None  # type: ignore[assignment]

        async def start(self, port: int) -> int:  # type: ignore[override]
            return port

    assert [line.partition(":")[0].partition("(")[0] for line in missing(GrpcServer, Older)] == [
        "GrpcServer.start", "GrpcServer.stop",
    ]  # fmt: skip
