"""What both sides keep to: Artemis' arithmetic, to the millisecond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.ports import edge_acceptors
from broker.config.settings import EdgeSettings
from broker.edge.session.heartbeat import HeartBeat, negotiate

DEFAULT = AcceptorSettings()
LEAST = EdgeSettings().heartbeat_min_ms
EDGE = edge_acceptors(EdgeSettings())["tcp"]


@pytest.mark.parametrize(
    ("acceptor", "header", "send", "ttl", "reply"),
    [
        ({}, "0,0", 0, 60_000, "0,30000"),
        ({}, "1,0", 0, 1000, "0,500"),
        ({}, "1,1", 500, 1000, "500,500"),
        ({}, "500,1000", 1000, 1000, "1000,500"),
        ({}, "500,500", 500, 1000, "500,500"),
        ({}, "1000,0", 0, 2000, "0,1000"),
        ({}, "10000,10000", 10_000, 20_000, "10000,10000"),
        ({}, "0,200", 500, 60_000, "500,30000"),
        ({"connection_ttl_ms": 1000}, "0,0", 0, 1000, "0,500"),
        ({"connection_ttl_min_ms": 5000}, "1,0", 0, 5000, "0,2500"),
        ({"connection_ttl_max_ms": 10_000}, "20000,0", 0, 10_000, "0,5000"),
        ({"connection_ttl_max_ms": 30_000}, "20000,0", 0, 30_000, "0,15000"),
        ({"heartbeat_to_ttl_modifier": 1.0}, "5000,0", 0, 5000, "0,5000"),
        ({"heartbeat_to_ttl_modifier": 1.5}, "5000,0", 0, 7500, "0,5000"),
        # The floor is looked at first.
        ({"connection_ttl_min_ms": 5000, "connection_ttl_max_ms": 4000}, "1,0", 0, 5000, "0,2500"),
        ({"connection_ttl_min_ms": 5000, "connection_ttl_max_ms": 4000}, "2250,0", 0, 5000, "0,2500"),
        ({"connection_ttl_ms": -1}, "0,0", 0, 0, "0,0"),
        ({"heartbeat_to_ttl_modifier": 1.5}, "0,0", 0, 60_000, "0,40000"),
        ({"heartbeat_to_ttl_modifier": 1.3}, "777,0", 0, 1010, "0,777"),
        ({"heartbeat_to_ttl_modifier": 1.3}, "700,0", 0, 1000, "0,769"),
    ],
)
def test_the_worked_examples(acceptor, header, send, ttl, reply):
    assert negotiate(header, replace(DEFAULT, **acceptor), LEAST) == HeartBeat(send, ttl, reply)


@pytest.mark.parametrize(
    ("assumed", "expected"),
    [
        ("0,0", HeartBeat(0, 60_000, None)),
        ("5000,0", HeartBeat(0, 10_000, None)),
        ("5000,100", HeartBeat(500, 10_000, None)),
    ],
)
def test_a_client_that_sends_no_header_is_treated_as_if_it_had_sent_the_default_and_gets_no_answer(assumed, expected):
    assert negotiate(None, replace(DEFAULT, default_heartbeat=assumed), LEAST) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, HeartBeat(0, 0, None)),
        ("0,0", HeartBeat(0, 0, "0,0")),
        ("1,1", HeartBeat(500, 1000, "500,500")),
        ("10000,0", HeartBeat(0, 20_000, "0,10000")),
    ],
)
def test_the_ports_of_edge_let_clients_be_silent_that_promised_nothing(header, expected):
    assert negotiate(header, EDGE, LEAST) == expected


def test_the_ports_of_edge_follow_the_settings_of_edge():
    acceptor = edge_acceptors(EdgeSettings(heartbeat_min_ms=100, heartbeat_tolerance=2.5, connection_ttl_ms=9000))["ws"]
    assert negotiate("99,0", acceptor, 100) == HeartBeat(0, 250, "0,100")
    assert negotiate("0,7", acceptor, 100) == HeartBeat(100, 9000, "100,3600")
