"""Waiting places that are shared fairly, against a model that counts everything anew."""

from __future__ import annotations

import random

import pytest

from broker.edge.transport.fair_places import FairPlaces, network


def test_who_holds_the_most_gives_way_first_and_its_longest_waiting_first():
    places: FairPlaces[str] = FairPlaces(3)
    assert [places.admit("a", "a1"), places.admit("a", "a2"), places.admit("b", "b1")] == [None] * 3
    assert places.admit("c", "c1") == "a1"
    assert places.admit("d", "d1") == "b1", "each holds one, and this one for longest"
    assert places.admit("d", "d2") == "a2" and places.admit("d", "d3") == "d1" and places.held("d") == 2
    places.leave("gone")
    assert len(places) == 3


def test_a_thousand_of_one_address_take_nothing_from_others():
    places: FairPlaces[tuple[str, int]] = FairPlaces(1000)
    others = [(f"10.0.0.{n}", n) for n in range(200)]
    for who, n in others:
        assert places.admit(who, (who, n)) is None
    lost = [places.admit("attacker", ("attacker", n)) for n in range(5000)]
    assert {ticket[0] for ticket in lost if ticket is not None} == {"attacker"} and places.held("attacker") == 800
    assert all(places.held(who) == 1 for who, _ in others)


@pytest.mark.parametrize("seed", range(20))
def test_against_a_model(seed):
    draw = random.Random(seed)
    most = draw.randint(1, 12)
    places: FairPlaces[int] = FairPlaces(most)
    model: dict[int, str] = {}
    for ticket in range(400):
        if model and draw.random() < 0.4:
            gone = draw.choice(list(model))
            del model[gone]
            places.leave(gone)
            continue
        who = draw.choice("aaaabbcd")
        counts = {name: list(model.values()).count(name) for name in set(model.values())}
        victim = places.admit(who, ticket)
        assert (victim is not None) == (len(model) == most)
        if victim is not None:
            holder = model[victim]
            assert counts[holder] == max(counts.values())
            assert victim == min(one for one, name in model.items() if name == holder)
            del model[victim]
        model[ticket] = who
        assert len(places) == len(model)
        for name in "abcd":
            assert places.held(name) == list(model.values()).count(name)


@pytest.mark.parametrize(
    ("host", "who"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("what:ever", "what:ever"),
    ],
)
def test_an_ipv6_network_is_one(host, who):
    assert network(host) == who
