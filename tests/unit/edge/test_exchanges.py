"""RabbitMQ's exchanges as addresses: each kind has a place of its own, and none is the beginning of another's keys."""

from __future__ import annotations

import pytest

from broker.core.errors import Code, RefusedError
from broker.edge.destinations.dialects.exchanges import PREDECLARED, Exchanges

THERE = {"d": {}, "f": {"type": "fanout"}, "t": {"type": "topic"}, "h": {"type": "headers"}, "a.b/c%": {}}


@pytest.mark.parametrize(
    ("name", "key", "address"),
    [
        ("d", "k.x", "$exchange/d/k.x"),
        ("f", "whatever", "$exchange/f"),
        ("h", "whatever", "$exchange/h"),
        ("t", "a.*.#", "$exchange/t.a.*.#"),
        ("t", "#.#.a.#.#.#", "$exchange/t.#.a.#"),
        ("amq.topic", "a.#.#", "a.#"),
        ("amq.direct", "k", "$exchange/amq%2Edirect/k"),
        ("a.b/c%", "k", "$exchange/a%2Eb%2Fc%25/k"),
        ("d", "a*b", "$exchange/d/a*b"),
    ],
)
def test_an_exchange_and_a_key_are_an_address(name, key, address):
    assert Exchanges(THERE, ".").address(name, key, "dest") == address


def test_words_of_keys_are_split_by_dots_there_and_by_our_delimiter_here():
    exchanges = Exchanges(THERE, "/")
    assert exchanges.address("t", "a.#.#.b", "dest") == "$exchange/t/a/#/b"
    assert exchanges.address("amq.topic", "a.b", "dest") == "a/b"
    assert exchanges.key("") == ""


@pytest.mark.parametrize(
    ("name", "key", "code"),
    [
        ("none", "k", Code.NO_SUCH_DESTINATION),
        ("d", "a.*", Code.BAD_DESTINATION),
        ("d", "#", Code.BAD_DESTINATION),
        ("amq.topic", "", Code.BAD_DESTINATION),
    ],
)
def test_what_names_nothing_is_refused_by_name(name, key, code):
    with pytest.raises(RefusedError) as refused:
        Exchanges(THERE, ".").address(name, key, "dest")
    assert refused.value.code is code


def test_what_is_always_there_is_not_taken_away_by_a_setting():
    exchanges = Exchanges({"amq.fanout": {"type": "direct"}}, ".")
    assert exchanges.address("amq.fanout", "k", "dest") == "$exchange/amq%2Efanout"
    assert set(PREDECLARED.values()) == {"direct", "fanout", "topic", "headers"}
