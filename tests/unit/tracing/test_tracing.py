"""What is put between the parts of a broker where messages are traced."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.tracing import TracingSettings
from broker.core.address import AckMode
from broker.edge.requests.inbound import Inbound
from broker.seams.clock import SystemClock
from broker.tracing.starts import StartingInbound
from broker.tracing.stored import look
from broker.tracing.tracing import Tracing


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_an_edge_asks_its_consumers_and_may_begin_traces(ratio: float):
    pytest.importorskip("opentelemetry.sdk")
    tracing = Tracing(TracingSettings("http://127.0.0.1:9", ratio), "edge", "one", SystemClock())
    owner: Any = SimpleNamespace(shares_wildcards=True, submit=lambda commands: False)
    port = tracing.port(owner)
    made: list[Any] = [Inbound]
    edge: Any = SimpleNamespace(consumers={1: SimpleNamespace(ack=AckMode.AUTO, address="q")}, reads_by=made.append)
    tracing.edge(edge, port)
    assert port._modes(1) == (AckMode.AUTO, "q") and port._modes(2) is None
    if ratio:
        assert isinstance(made[-1], partial) and made[-1].func is StartingInbound
    else:
        assert made == [Inbound]
    assert len(list(tracing.metrics())) == 3
    tracing.stop()


def test_an_owner_shows_what_it_reads_back():
    pytest.importorskip("opentelemetry.sdk")
    tracing = Tracing(TracingSettings("http://127.0.0.1:9"), "owner", "one", SystemClock())
    shown: list[Any] = []
    shard: Any = SimpleNamespace(reads=SimpleNamespace(look=shown.append), submit=lambda commands: True)
    assert tracing.owner(shard)([]) is True and shown == [look]
    tracing.stop()
