"""Which advisories there are."""

from __future__ import annotations

import pytest

from broker.core.notices import is_advisory


@pytest.mark.parametrize("name", ["Connection", "Consumer.Queue.orders", "Consumer.Topic.>"])
def test_these_are_told(name: str):
    assert is_advisory(f"ActiveMQ.Advisory.{name}")


@pytest.mark.parametrize("name", ["ActiveMQ.Advisory.MessageDLQd.Queue.a", "ActiveMQ.Advisory.", "Connection", "orders",
                                  "ActiveMQ.Advisory.Consumer.Queue"])  # fmt: skip
def test_these_are_not(name: str):
    assert not is_advisory(name)
