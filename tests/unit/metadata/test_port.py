"""What `broker.metadata.port.Metadata` promises, asked of the real etcd and of the store in memory alike."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from broker.metadata.port import Change, Compacted, Delete, KeyValue, MetadataRefused, MetadataUnavailable, Put
from tests.unit.metadata.worlds import TIMEOUT_S, EtcdWorld, MemoryWorld, World


@pytest.fixture(params=["memory", "etcd"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = MemoryWorld() if request.param == "memory" else EtcdWorld(request.getfixturevalue("etcd"))
    yield made
    await made.close()


@pytest.fixture(params=["memory", "etcd"])
async def mortal(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """One whose store may go down."""
    made = MemoryWorld() if request.param == "memory" else EtcdWorld(request.getfixturevalue("own_etcd"))
    yield made
    await made.close()


async def take(watching: AsyncIterator[list[Change]], count: int, timeout: float = 5.0) -> list[Change]:
    """At least `count` changes of a watch."""
    found: list[Change] = []
    async with asyncio.timeout(timeout):
        while len(found) < count:
            found += await anext(watching)
    return found


async def test_keys_and_revisions(world):
    client, key = world.client(), world.prefix + "a"
    assert await client.get(key) is None
    first = await client.put(key, b"1")
    assert await client.get(key) == KeyValue(key, b"1", first)
    second = await client.put(key, b"")
    assert second > first
    assert await client.get(key) == KeyValue(key, b"", second)
    assert await client.delete(key) is True
    assert await client.delete(key) is False
    assert await client.get(key) is None


async def test_range_is_all_keys_under_the_prefix_at_one_revision(world):
    client = world.client()
    names = [f"{world.prefix}é{n}" for n in range(1100)]  # more than one page
    for at in range(0, len(names), 100):
        await client.commit([], [Put(name, name.encode()) for name in names[at : at + 100]])
    await client.put(world.prefix[:-1] + "0", b"the neighbour behind '/'")
    found, revision = await client.range(world.prefix)
    assert [(kv.key, kv.value) for kv in found] == [(name, name.encode()) for name in sorted(names)]
    assert revision >= max(kv.revision for kv in found)
    assert await client.range(world.prefix + "none") == ([], revision)


async def test_commit_is_all_or_nothing(world):
    client, a, b, c = world.client(), *(world.prefix + name for name in "abc")
    made = await client.commit([(a, 0), (b, 0)], [Put(a, b"1"), Put(b, b"2")])
    assert made > 0
    assert await client.commit([(a, 0)], [Put(c, b"never")]) == 0
    assert await client.commit([(a, made), (b, made - 1)], [Put(c, b"never")]) == 0
    assert await client.get(c) is None
    changed = await client.commit([(a, made), (b, made), (c, 0)], [Put(a, b"3"), Delete(b), Put(c, b"4")])
    assert changed > made
    assert [(kv.key, kv.value, kv.revision) for kv in (await client.range(world.prefix))[0]] == [
        (a, b"3", changed), (c, b"4", changed),
    ]  # fmt: skip
    assert await client.commit([(a, changed)], []) == changed, "a comparison alone changes nothing"


async def test_of_many_that_compare_and_swap_one_wins(world):
    clients, key = [world.client() for _ in range(4)], world.prefix + "office"
    won = await asyncio.gather(*(client.commit([(key, 0)], [Put(key, b"%d" % n)]) for n, client in enumerate(clients)))
    assert sum(revision > 0 for revision in won) == 1
    winner = next(n for n, revision in enumerate(won) if revision)
    assert (await clients[0].get(key)).value == b"%d" % winner


async def test_what_the_store_would_not_do_is_refused_and_happens_not(world):
    client, key = world.client(), world.prefix + "a"
    with pytest.raises(MetadataRefused, match="lease not found"):
        await client.put(key, b"1", lease=12345)
    with pytest.raises(MetadataRefused, match="duplicate key"):
        await client.commit([], [Put(key, b"1"), Put(key, b"2")])
    with pytest.raises(MetadataRefused, match="too many operations"):
        await client.commit([], [Put(f"{key}{n}", b"") for n in range(129)])
    assert (await client.range(world.prefix))[0] == []


async def test_watch_tells_every_change_in_order(world):
    client, other, a, b = world.client(), world.client(), world.prefix + "a", world.prefix + "b"
    first = await client.put(a, b"1")
    watching = client.watch(world.prefix, first)
    assert await take(watching, 1) == [Change(a, b"1", first)]
    lease = await other.grant(10)
    second = await other.commit([], [Put(a, b"2", lease.id), Put(b, b"3")])
    third = await other.put(world.prefix[:-1] + "0", b"the neighbour") + 1
    await other.delete(a)
    assert await take(watching, 3) == [
        Change(a, b"2", second, lease.id), Change(b, b"3", second), Change(a, None, third),
    ]  # fmt: skip
    past = client.watch(world.prefix, second)
    assert [change.revision for change in await take(past, 3)] == [second, second, third]
    await watching.aclose()
    await past.aclose()


async def test_a_watch_of_one_key_and_of_many_do_not_mix(world):
    client = world.client()
    _, revision = await client.range(world.prefix)
    some = client.watch(world.prefix + "some/", revision + 1)
    every = client.watch(world.prefix, revision + 1)
    for n in range(50):
        await client.put(f"{world.prefix}{'some' if n % 2 else 'other'}/{n}", b"%d" % n)
    assert [change.value for change in await take(some, 25)] == [b"%d" % n for n in range(1, 50, 2)]
    assert [change.value for change in await take(every, 50)] == [b"%d" % n for n in range(50)]
    await some.aclose()
    await every.aclose()


async def test_a_watch_into_forgotten_history_says_so(world):
    client = world.client()
    first = await client.put(world.prefix + "a", b"1")
    for n in range(5):
        last = await client.put(world.prefix + "a", b"%d" % n)
    world.compact(last)
    with pytest.raises(Compacted):
        await take(client.watch(world.prefix, first), 1)
    watching = client.watch(world.prefix, last)
    assert [change.revision for change in await take(watching, 1)] == [last]
    await watching.aclose()


async def test_the_keys_of_a_lease_go_with_it(world):
    client, other, key = world.client(), world.client(), world.prefix + "member"
    lease = await client.grant(10)
    assert 8 < lease.remaining <= 10
    put = await client.put(key, b"me", lease.id)
    assert await other.get(key) == KeyValue(key, b"me", put, lease.id)
    watching = other.watch(world.prefix, put + 1)
    await lease.revoke()
    assert [(c.key, c.value) for c in await take(watching, 1)] == [(key, None)]
    assert await other.get(key) is None
    assert lease.remaining <= 0
    assert await asyncio.wait_for(lease.lost(), 30) == "given back"
    await lease.revoke()
    await watching.aclose()


async def test_a_lease_is_kept_alive_until_somebody_ends_it(world):
    client, other, key = world.client(), world.client(), world.prefix + "member"
    lease = await client.grant(2)
    await client.put(key, b"me", lease.id)
    losing = asyncio.create_task(lease.lost())
    await asyncio.sleep(2.6)
    assert await other.get(key) is not None
    assert not losing.done()
    assert lease.remaining > 0.2
    await other.revoke(lease.id)
    assert await other.get(key) is None
    assert await asyncio.wait_for(losing, 30) == "the metadata store has ended it"
    await other.revoke(lease.id)


async def test_a_key_put_under_another_lease_does_not_go_with_the_first(world):
    client, key = world.client(), world.prefix + "member"
    first, second = await client.grant(5), await client.grant(5)
    await client.put(key, b"1", first.id)
    put = await client.put(key, b"2", second.id)
    await first.revoke()
    assert await client.get(key) == KeyValue(key, b"2", put, second.id)


async def test_a_process_that_goes_silent_loses_its_lease(world):
    client, other, key = world.client(), world.client(), world.prefix + "member"
    put = await client.put(key, b"me", (await client.grant(1)).id)
    watching = other.watch(world.prefix, put + 1)
    await client.close()
    assert [(c.key, c.value) for c in await take(watching, 1, 30)] == [(key, None)]
    await watching.aclose()


async def test_while_the_store_is_down_calls_fail_in_time_and_leases_end_here_first(mortal):
    client = mortal.client()
    lease = await client.grant(1)
    await mortal.down()
    begun = time.monotonic()
    calls = client.get("a"), client.put("a", b""), client.commit([], [Put("a", b"")]), client.range("/")
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [MetadataUnavailable] * 4
    assert time.monotonic() - begun < 3 * TIMEOUT_S
    assert "did not answer" in await asyncio.wait_for(lease.lost(), 30)
    assert lease.remaining <= 0


async def test_a_watch_outlives_its_store(mortal):
    client, key = mortal.client(), mortal.prefix + "a"
    revision = await client.put(key, b"0")
    seen: list[bytes | None] = []

    async def watch() -> None:
        async for changes in client.watch(mortal.prefix, revision):
            seen.extend(change.value for change in changes)

    task = asyncio.create_task(watch())
    for restart in range(2):
        for n in range(3):
            await client.put(key, b"%d.%d" % (restart, n))
        await mortal.down()
        await asyncio.sleep(0.3)
        await mortal.up()
        other = mortal.client()
        with contextlib.suppress(MetadataUnavailable):
            await other.put(key, b"by another")  # before the watch is back, or after
    await client.put(key, b"end")
    async with asyncio.timeout(30):
        while not seen or seen[-1] != b"end":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert [value for value in seen if value != b"by another"] == [
        b"0", b"0.0", b"0.1", b"0.2", b"1.0", b"1.1", b"1.2", b"end",
    ]  # fmt: skip
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
