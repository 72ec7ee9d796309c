"""Which advisories there are."""

from __future__ import annotations

import pytest

from broker.core.notices import is_advisory, of_messages


@pytest.mark.parametrize("name", ["Connection", "Consumer.Queue.orders", "Consumer.Topic.>"])
def test_these_are_told(name: str):
    assert is_advisory(f"ActiveMQ.Advisory.{name}")


@pytest.mark.parametrize("name", ["ActiveMQ.Advisory.MessageDLQd.Queue.a", "ActiveMQ.Advisory.", "Connection", "orders",
                                  "ActiveMQ.Advisory.Consumer.Queue"])  # fmt: skip
def test_these_are_not(name: str):
    assert not is_advisory(name)


def test_those_of_single_messages_say_what_they_are_about():
    assert of_messages("ActiveMQ.Advisory.MessageDLQd.Queue.a.b") == ("MessageDLQd", "a.b")
    assert of_messages("ActiveMQ.Advisory.Expired.Topic.>") == ("Expired", ">")
    for name in ("ActiveMQ.Advisory.MessageConsumed.Queue.a", "MessageDLQd.Queue.a", "ActiveMQ.Advisory.MessageDLQd.a",
                 "ActiveMQ.Advisory.MessageDLQd.Queue"):  # fmt: skip
        assert of_messages(name) is None
