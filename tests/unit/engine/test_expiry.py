"""When messages expire, by the settings of their address."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.core.address import Outcome
from broker.engine.publishing.expiry import apply

from .world import INDIVIDUAL, World, got, ids, run_of

NOW = 1000


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        ({}, 0, 0),
        ({}, 1500, 1500),
        ({"no_expiry": True, "expiry_delay_ms": 5}, 1500, 0),
        ({"expiry_delay_ms": 50}, 0, 1050),
        ({"expiry_delay_ms": 50}, 9000, 9000),
        ({"expiry_delay_ms": 0}, 0, 1000),
        ({"expiry_delay_ms": 50, "max_expiry_delay_ms": 10}, 0, 1050),
        ({"min_expiry_delay_ms": 100}, 0, 1100),
        ({"min_expiry_delay_ms": 100}, 1001, 1100),
        ({"min_expiry_delay_ms": 100}, 5000, 5000),
        ({"max_expiry_delay_ms": 100}, 0, 1100),
        ({"max_expiry_delay_ms": 100}, 5000, 1100),
        ({"max_expiry_delay_ms": 100}, 1050, 1050),
        ({"max_expiry_delay_ms": 0}, 5000, 1000),
        ({"min_expiry_delay_ms": 50, "max_expiry_delay_ms": 100}, 0, 1100),
        ({"min_expiry_delay_ms": 50, "max_expiry_delay_ms": 100}, 1010, 1050),
        # RabbitMQ's x-max-age:999999999Y, imported, stopped its owner with the next message.
        ({"expiry_delay_ms": 1 << 64}, 0, 1 << 62),
        ({"min_expiry_delay_ms": 1 << 64}, 5, 1 << 62),
        ({"max_expiry_delay_ms": 1 << 64}, 0, 1 << 62),
    ],
)
def test_what_applies(settings, given, expected):
    run = run_of(b"x", expires=given)
    apply(AddressSettings(**settings), run, NOW)
    assert run.expires == expected


def test_subscribers_see_the_expiry_that_applies():
    world = World(addresses={"short": {"max_expiry_delay_ms": 100}})
    world.subscribe(1, "short")
    world.publish("short", b"a", expires=world.now + 5000)
    assert [effect.run.expires for effect in world.effects if hasattr(effect, "run")] == [world.now + 100]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("settings", [{"expiry_delay_ms": 0}, {"expiry_delay_ms": 50}, {"max_expiry_delay_ms": 0}])
def test_what_has_expired_does_not_expire_again_where_all_addresses_have_these_settings(settings, durable):
    world = World(expiry_address="gone", **settings)
    world.publish("q", b"a", durable=durable)
    for _ in range(10):
        world.tick(1000)
    assert world.engine.counters()["expired"] == 1
    assert len(got(world.subscribe(1, "gone"))) == 1


def test_a_dead_letter_lives_as_long_as_its_new_address_says():
    world = World(addresses={"DLQ": {"expiry_delay_ms": 100}}, max_delivery_attempts=1)
    world.subscribe(1, ack=INDIVIDUAL)
    world.publish("q", b"a")
    world.settle(1, *ids(world.effects), outcome=Outcome.NACK)
    assert world.queue("DLQ")["ready"] == 1
    for _ in range(3):
        world.tick(1000)
    assert world.queue("DLQ") is None or world.queue("DLQ")["ready"] == 0


def test_it_goes_to_the_expiry_address():
    world = World(addresses={"short": {"expiry_delay_ms": 100, "expiry_address": "gone"}})
    world.publish("short", b"a", durable=True)
    world.tick(1101)
    assert got(world.subscribe(1, "short")) == []
    assert len(got(world.subscribe(2, "gone"))) == 1
