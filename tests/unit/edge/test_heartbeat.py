"""C30, C31: what both sides keep to."""

import pytest

from broker.config.settings import EdgeSettings
from broker.edge.heartbeat import HeartBeat, negotiate


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, HeartBeat(0, 0, "0,0")),
        ("0,0", HeartBeat(0, 0, "0,0")),
        ("1,1", HeartBeat(500, 500, "500,500")),
        ("500,1000", HeartBeat(1000, 500, "1000,500")),
        ("10000,0", HeartBeat(0, 10000, "0,10000")),
        ("0,200", HeartBeat(500, 0, "500,0")),
    ],
)
def test_negotiation(header, expected):
    assert negotiate(header, EdgeSettings()) == expected


def test_a_client_without_the_header_gets_the_default():
    assert negotiate(None, EdgeSettings(default_heartbeat="2000,3000")) == HeartBeat(3000, 2000, "3000,2000")
