"""Names of destinations as clients of ActiveMQ Classic write them."""

from __future__ import annotations

import pytest

from broker.core.management import SCHEDULER, STATISTICS, name_of


@pytest.mark.parametrize(
    ("destination", "name"),
    [
        ("/topic/ActiveMQ.Scheduler.Management", SCHEDULER),
        ("ActiveMQ.Scheduler.Management", SCHEDULER),
        ("/queue/ActiveMQ.Statistics.Broker", STATISTICS + "Broker"),
        ("/queue/ActiveMQ.StatisticsActiveMQ.x", "ActiveMQ.StatisticsActiveMQ.x"),
        ("/queue/orders", "/queue/orders"),
        ("", ""),
    ],
)
def test_what_says_of_which_type_it_is_does_not_belong_to_the_name(destination, name):
    assert name_of(destination) == name
