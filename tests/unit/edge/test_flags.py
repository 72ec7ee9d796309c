"""RabbitMQ's durable, auto-delete and exclusive: what would not hold here is refused with what to set."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.core.errors import Code, RefusedError
from broker.edge.destinations.dialects.flags import (
    check_queue,
    check_subscription,
    check_values,
    denies,
    outlives,
    says,
)

PLAIN = AddressSettings()
GOES = AddressSettings(auto_delete=True, auto_delete_message_count=-1)


def test_a_flag_is_true_false_or_not_said():
    assert says({"durable": " TRUE "}, "durable") and not says({}, "durable") and not says({"durable": "1"}, "durable")
    assert denies({"durable": "False"}, "durable") and not denies({}, "durable")
    check_values({"durable": "true", "body": "x"}, ("durable",))
    with pytest.raises(RefusedError, match="exclusive:yes must be true or false"):
        check_values({"exclusive": "yes"}, ("durable", "exclusive"))


@pytest.mark.parametrize(
    ("headers", "stays"),
    [
        ({"durable": "true"}, True),
        ({"persistent": "true"}, True),
        ({"durable": "true", "auto-delete": "true"}, False),
        ({"durable": "true", "auto-delete": "false"}, True),
        ({}, False),
    ],
)
def test_a_durable_subscription_goes_only_where_it_is_asked_to(headers, stays):
    assert outlives(headers) is stays


@pytest.mark.parametrize(
    ("headers", "settings", "says"),
    [
        ({"durable": "true"}, PLAIN, ""),
        ({"auto-delete": "false", "durable": "false"}, PLAIN, ""),
        ({"durable": "false"}, PLAIN, "auto-delete:false as well"),
        ({"durable": "false"}, GOES, ""),
        ({"auto-delete": "true"}, PLAIN, 'set engine.addresses."orders".auto_delete = true'),
        ({"auto-delete": "true"}, AddressSettings(auto_delete=True, auto_delete_message_count=0), "auto_delete"),
        ({"auto-delete": "true"}, GOES, ""),
        ({"exclusive": "true"}, PLAIN, 'set engine.addresses."orders".exclusive = true'),
        ({"exclusive": "true"}, AddressSettings(exclusive=True), ""),
    ],
)
def test_a_queue_is_what_its_settings_say_whatever_a_frame_wants(headers, settings, says):
    if not says:
        check_queue(headers, "orders", settings)
        return
    with pytest.raises(RefusedError) as refused:
        check_queue(headers, "orders", settings)
    assert refused.value.code is Code.BAD_HEADER and says in refused.value.detail


def test_what_a_subscription_of_a_topic_may_say():
    check_subscription({"exclusive": "true", "auto-delete": "false"}, durable=False)
    check_subscription({"auto-delete": "false"}, durable=True)
    with pytest.raises(RefusedError, match="shared"):
        check_subscription({"exclusive": "true"}, durable=True)
    with pytest.raises(RefusedError, match="durable:true"):
        check_subscription({"auto-delete": "false"}, durable=False)
