"""A local copy of a prefix: whatever the store does, it ends up the same and never goes back."""

from __future__ import annotations

import asyncio

import pytest

from broker.cluster.watched import Watched
from broker.metadata.port import Change, Delete, MetadataRefused, Put

from .world import World, simulate


async def copies(world: World, count: int = 1):
    """Each with the list of what it was told."""
    found = []
    for i in range(count):
        place = world.loop.place(f"watcher{i}")
        told: list[Change] = []
        watched = Watched(world.client(place), "/p/", told.extend)
        await place.spawn(watched.start())
        found.append((watched, told))
    return found


def put(world: World, **values: str) -> int:
    return world.store.commit([], [Put(f"/p/{name}", value.encode()) for name, value in values.items()])


def state(watched: Watched) -> dict[str, str]:
    return {key.removeprefix("/p/"): item.value.decode() for key, item in watched.items.items()}


def test_it_follows():
    async def scenario(world: World) -> None:
        put(world, a="1", b="1")
        ((watched, told),) = await copies(world)
        assert state(watched) == {"a": "1", "b": "1"}
        put(world, a="2")
        world.store.commit([], [Delete("/p/b"), Put("/other", b"x")])
        await asyncio.sleep(0.1)
        assert state(watched) == {"a": "2"}
        assert [(change.key, change.value) for change in told[2:]] == [("/p/a", b"2"), ("/p/b", None)]

    simulate(scenario)


def test_after_compaction_it_is_told_the_difference_deletions_too():
    async def scenario(world: World) -> None:
        put(world, a="1", b="1", c="1")
        ((watched, told),) = await copies(world)
        del told[:]
        watched._metadata.cut()
        put(world, a="2")
        world.store.commit([], [Delete("/p/b")])
        put(world, d="1")
        world.store.compact(world.store.revision)
        watched._metadata.heal()
        await asyncio.sleep(5)
        assert state(watched) == {"a": "2", "c": "1", "d": "1"}
        assert sorted((change.key, change.value) for change in told) == [
            ("/p/a", b"2"), ("/p/b", None), ("/p/d", b"1")
        ]  # fmt: skip

    simulate(scenario)


def test_an_own_write_is_told_once_and_never_taken_back_by_a_late_event():
    async def scenario(world: World) -> None:
        put(world, a="1")
        ((watched, told),) = await copies(world)
        watched._metadata.latency = lambda: 0.5
        put(world, a="2")
        revision = put(world, a="3")
        watched.adopt(Change("/p/a", b"3", revision))
        gone = world.store.commit([], [Delete("/p/a")])
        watched.adopt(Change("/p/a", None, gone))
        await asyncio.sleep(5)
        assert [change.value for change in told] == [b"1", b"3", None]
        put(world, a="4")
        await asyncio.sleep(5)
        assert told[-1].value == b"4" and state(watched) == {"a": "4"}

    simulate(scenario)


def test_an_own_write_that_is_known_late_brings_nothing_back():
    """Its answer comes after the watch has told that somebody else deleted the key again."""

    async def scenario(world: World) -> None:
        ((watched, told),) = await copies(world)
        revision = put(world, a="1")
        world.store.commit([], [Delete("/p/a")])
        await asyncio.sleep(1)
        watched.adopt(Change("/p/a", b"1", revision))
        assert state(watched) == {}
        assert [change.value for change in told] == [b"1", None]
        put(world, a="2")
        await asyncio.sleep(1)
        assert state(watched) == {"a": "2"}

    simulate(scenario)


def test_it_waits_for_a_store_that_is_down_and_says_when_it_is_refused():
    async def scenario(world: World) -> None:
        put(world, a="1")
        world.store.stop()
        place = world.loop.place("w")
        watched = Watched(world.client(place), "/p/", lambda changes: None)
        starting = place.spawn(watched.start())
        await asyncio.sleep(60)
        assert not starting.done()
        world.store.start()
        await starting
        assert state(watched) == {"a": "1"}

        class Refusing:
            async def range(self, prefix: str):
                raise MetadataRefused("permission denied")

        with pytest.raises(MetadataRefused, match="permission denied"):
            await Watched(Refusing(), "/p/", lambda changes: None).start()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_copies_end_up_equal_and_revisions_only_grow(seed):
    async def scenario(world: World) -> None:
        chance = world.loop.random
        found = await copies(world, 3)
        for _ in range(120):
            name = chance.choice("abcd")
            match chance.randrange(8):
                case 0 | 1 | 2 | 3:
                    put(world, **{name: str(chance.random())})
                case 4 | 5:
                    world.store.commit([], [Delete(f"/p/{name}")])
                case 6:
                    watched, _ = chance.choice(found)
                    chance.choice([watched._metadata.cut, watched._metadata.heal])()
                case 7:
                    world.store.compact(world.store.revision - chance.randrange(5))
            await asyncio.sleep(chance.choice([0, 0.001, 0.01, 0.3]))
        for watched, _ in found:
            watched._metadata.heal()
        await asyncio.sleep(10)
        truth = {item.key.removeprefix("/p/"): item.value.decode() for item in world.store.range("/p/")[0]}
        for watched, told in found:
            assert state(watched) == truth
            last: dict[str, int] = {}
            for change in told:
                assert change.revision > last.get(change.key, 0)
                last[change.key] = change.revision

    simulate(scenario, seed)
