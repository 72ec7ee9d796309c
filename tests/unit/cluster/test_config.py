"""Live configuration and the names of durable subscriptions."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from broker.cluster.config import ConfigWatch, UserEntry
from broker.cluster.keys import Keys, escape, last_part
from broker.cluster.subscriptions import SubscriptionDirectory
from broker.config.settings import EngineSettings
from broker.engine.address.address_settings import Matcher
from broker.metadata.port import Delete, Put

from .world import KEYS, World, simulate

HASH = "$argon2id$v=19$m=19456,t=2,p=1$abc$def"


def put(world: World, key: str, value: object) -> int:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return world.store.commit([], [Put(key, data)])


class Told:
    """A ConfigWatch and what it said."""

    def __init__(self, world: World, base: EngineSettings | None = None) -> None:
        self.engine: list[EngineSettings] = []
        self.users: list[dict[str, UserEntry]] = []
        self.addresses: list[dict] = []
        self.applied: list[int] = []
        self.watch = ConfigWatch(
            world.client(), KEYS, base or EngineSettings(), on_engine_settings=self.engine.append,
            on_users=self.users.append, on_addresses=self.addresses.append, on_applied=self.applied.append,
        )  # fmt: skip


def test_queues_and_diverts_replace_those_of_the_config_file():
    async def scenario(world: World) -> None:
        base = EngineSettings(queues={"q": {"ring_size": 1, "exclusive": True}, "kept": {}})
        told = Told(world, base)
        put(world, KEYS.queue("q"), {"ring_size": "5"})
        put(world, KEYS.divert("copy"), {"address": "a", "forward": "b"})
        await told.watch.start()
        assert told.engine[-1].queues == {"q": {"ring_size": 5}, "kept": {}}
        assert told.engine[-1].diverts == {"copy": {"address": "a", "forward": "b"}}
        put(world, KEYS.queue("q"), {"selector": "a ="})
        put(world, KEYS.divert("copy"), {"address": "a"})
        await asyncio.sleep(0.1)
        assert told.engine[-1].queues["q"] == {"ring_size": 5} and "copy" in told.engine[-1].diverts
        assert "Invalid selector" in told.watch.bad[KEYS.queue("q")]
        world.store.commit([], [Delete(KEYS.queue("q")), Delete(KEYS.divert("copy"))])
        await asyncio.sleep(0.1)
        assert told.engine[-1].queues == base.queues and told.engine[-1].diverts == {}

    simulate(scenario)


def test_permissions_take_the_place_of_those_of_the_config_file():
    async def scenario(world: World) -> None:
        seen: list[dict] = []
        base = {"#": {"send": "all"}, "orders": {"send": "shop", "consume": "shop"}}
        watch = ConfigWatch(world.client(), KEYS, EngineSettings(), permissions=base, on_permissions=seen.append)
        put(world, KEYS.permission("orders"), {"send": "audit"})
        await watch.start()
        assert seen == [{"#": {"send": "all"}, "orders": {"send": "audit"}}]
        put(world, KEYS.permission("orders"), {"send": ""})
        put(world, KEYS.permission("closed"), {})
        await asyncio.sleep(0.1)
        assert seen[-1] == {"#": {"send": "all"}, "orders": {"send": ""}, "closed": {}}
        world.store.commit([], [Delete(KEYS.permission("orders")), Delete(KEYS.permission("closed"))])
        await asyncio.sleep(0.1)
        assert seen[-1] == base

    simulate(scenario)


def test_a_permission_that_cannot_be_read_is_for_nobody_unless_it_was_read_before():
    """A fresh edge would be open where those that run since before are closed."""

    async def scenario(world: World) -> None:
        seen: list[dict] = []
        watch = ConfigWatch(world.client(), KEYS, EngineSettings(), on_permissions=seen.append)
        put(world, KEYS.permission("secret.#"), {"consumes": "boss"})
        await watch.start()
        assert seen[-1] == {"secret.#": {}} and "consumes" in watch.bad[KEYS.permission("secret.#")]
        put(world, KEYS.permission("secret.#"), {"consume": "boss"})
        await asyncio.sleep(0.1)
        assert seen[-1] == {"secret.#": {"consume": "boss"}} and not watch.bad
        put(world, KEYS.permission("secret.#"), {"consumes": "boss"})
        await asyncio.sleep(0.1)
        assert seen[-1] == {"secret.#": {"consume": "boss"}} and watch.bad
        world.store.commit([], [Delete(KEYS.permission("secret.#"))])
        await asyncio.sleep(0.1)
        assert seen[-1] == {} and not watch.bad

    simulate(scenario)


def test_settings_reach_the_engine_typed_and_laid_over_the_config_file():
    async def scenario(world: World) -> None:
        put(world, KEYS.setting("orders.#"), {"max_delivery_attempts": 3, "redelivery_delay_ms": "500"})
        put(world, KEYS.address("orders.eu"), {"partitions": 4})
        base = EngineSettings(addresses={"orders.#": {"max_delivery_attempts": 7, "auto_create": False}})
        told = Told(world, base)
        await told.watch.start()
        settings = Matcher(told.engine[-1])("orders.eu")
        assert (settings.max_delivery_attempts, settings.redelivery_delay_ms) == (3, 500)
        assert settings.partitions == 4 and not settings.auto_create
        assert told.addresses == [{"orders.eu": {"partitions": 4}}]
        world.store.commit([], [Delete(KEYS.setting("orders.#"))])
        await asyncio.sleep(0.1)
        assert Matcher(told.engine[-1])("orders.eu").max_delivery_attempts == 7
        assert told.applied == sorted(told.applied) and told.applied[-1] == world.store.revision

    simulate(scenario)


@pytest.mark.parametrize(
    "key, value, text",
    [
        (KEYS.setting("a.#"), {"max_delivery_attemps": 3}, "Unknown setting max_delivery_attemps"),
        (KEYS.setting("a.#"), {"auto_create": "perhaps"}, "it must be yes or no"),
        (KEYS.setting("a#"), {"auto_create": True}, "stand for whole words"),
        (KEYS.setting("a.#"), b"max_delivery_attempts=3", "must be a JSON object"),
        (KEYS.setting("a.#"), b"", "must be a JSON object"),
        (KEYS.address("a"), {"redelivery_delay_ms": 9, "max_redelivery_delay_ms": 5}, "is below redelivery_delay_ms"),
        (KEYS.user("ada"), {"hash": "plain"}, "cluster user ada has no argon2id hash"),
        (KEYS.user("ada"), {"hash": HASH, "role": "x"}, "unknown entry 'role'"),
        (KEYS.user("ada"), {"hash": HASH, "groups": "admins"}, "groups must be a list"),
    ],
)
def test_a_bad_value_is_named_once_and_the_old_one_stays(key, value, text, caplog):
    async def scenario(world: World) -> None:
        put(world, KEYS.setting("a.#"), {"max_delivery_attempts": 5})
        put(world, KEYS.user("ada"), {"hash": HASH})
        told = Told(world)
        await told.watch.start()
        put(world, key, value)
        put(world, KEYS.user("bob"), {"hash": HASH})
        await asyncio.sleep(0.1)
        assert told.watch.bad.keys() == {key} and text in told.watch.bad[key]
        assert Matcher(told.engine[-1])("a.b").max_delivery_attempts == 5
        assert told.users[-1] == {"ada": UserEntry(HASH), "bob": UserEntry(HASH)}
        assert [record.getMessage() for record in caplog.records if text in record.getMessage()] != []
        assert HASH not in caplog.text
        world.store.commit([], [Delete(key)])
        await asyncio.sleep(0.1)
        assert told.watch.bad == {}

    simulate(scenario)


def test_users_come_and_go():
    async def scenario(world: World) -> None:
        told = Told(world)
        await told.watch.start()
        put(world, KEYS.user("ada"), {"hash": HASH, "groups": ["admins"]})
        await asyncio.sleep(0.1)
        assert told.users == [{"ada": UserEntry(HASH, ("admins",))}] and told.engine == []
        world.store.commit([], [Delete(KEYS.user("ada"))])
        await asyncio.sleep(0.1)
        assert told.users[-1] == {}

    simulate(scenario)


def test_a_user_may_have_passcodes_from_before():
    async def scenario(world: World) -> None:
        told = Told(world)
        await told.watch.start()
        put(world, KEYS.user("ada"), {"hash": HASH, "previous": [HASH + "2"]})
        put(world, KEYS.user("bob"), {"hash": HASH, "previous": ["plain"]})
        await asyncio.sleep(0.1)
        assert told.users[-1] == {"ada": UserEntry(HASH, (), (HASH + "2",))}
        assert "no argon2id hash" in told.watch.bad[KEYS.user("bob")]

    simulate(scenario)


def test_queues_and_diverts_come_with_the_settings():
    async def scenario(world: World) -> None:
        told = Told(world, EngineSettings(queues={"audit": {"exclusive": True}}))
        await told.watch.start()
        put(world, KEYS.queue("big"), {"address": "orders", "selector": "a > 1"})
        put(world, KEYS.divert("copy"), {"address": "orders", "forward": "audit"})
        put(world, KEYS.queue("bad"), {"ring_size": "many"})
        await asyncio.sleep(0.1)
        assert told.engine[-1].queues == {
            "audit": {"exclusive": True},
            "big": {"address": "orders", "selector": "a > 1"},
        }
        assert told.engine[-1].diverts == {"copy": {"address": "orders", "forward": "audit"}}
        assert "ring_size" in told.watch.bad[KEYS.queue("bad")]
        world.store.commit([], [Delete(KEYS.queue("big"))])
        await asyncio.sleep(0.1)
        assert set(told.engine[-1].queues) == {"audit"}

    simulate(scenario)


@pytest.mark.parametrize("name", ["a/b", "../owners/x", "a b", "ä→", "%2F", "a%", 'q"\\', "orders.#", "", "a\nb"])
def test_names_are_one_part_of_a_key_and_come_back_as_they_were(name):
    key = Keys("/x/").subscription(name)
    assert key.startswith("/x/subs/") and "/" not in key.removeprefix("/x/subs/") and key.isascii()
    assert last_part(key) == name
    assert escape("orders.#") == "orders.#", "readable where it can be"
    assert KEYS.suspicion_of(KEYS.suspicion(name, "b/c")) == (name, "b/c")


def test_ten_thousand_addresses_and_twenty_thousand_subscriptions_are_read_at_once():
    async def scenario(world: World) -> None:
        for i in range(10_000):
            put(world, KEYS.address(f"orders.{i}"), {"max_delivery_attempts": 3})
            put(world, KEYS.subscription(f"ada.{i}"), b"x")
            put(world, KEYS.subscription(f"bob.{i}"), b"x")
        told, directory = Told(world), SubscriptionDirectory(world.client(), KEYS)
        began = time.process_time()
        await told.watch.start()
        await directory.start()
        assert time.process_time() - began < 3
        assert len(told.addresses[-1]) == 10_000 and directory.address_of("bob.9999") == "x"

    simulate(scenario)
