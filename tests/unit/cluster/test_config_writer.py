"""Changes of the live configuration by a member: compare-and-swap, refused where a resource of Kubernetes has it, and
who does not use it yet is told of, never assumed."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import msgspec
import pytest

from broker.cluster import config_writer
from broker.cluster.applied import Applied
from broker.cluster.config_writer import ConfigWriter, NotKnown
from broker.cluster.operate import ATTEMPTS, NotPossible
from broker.metadata.port import Put

from .members import KEYS, member, membership, stored

KEY = KEYS.queue("orders")


class Writing:
    """A writer on owner a, of a cluster with edge e0. `reached`: revisions that it waited for here."""

    def __init__(self) -> None:
        self.store, self.metadata = stored()
        self.reached: list[int] = []
        self.members = membership(member("a"), member("e0", "edge"), member("old", leaving=True))
        self.writer = ConfigWriter(self.metadata, KEYS, SimpleNamespace(reached=self.use), self.members)

    async def use(self, revision: int) -> None:
        self.reached.append(revision)

    def put(self, key: str, value: object) -> None:
        self.store.commit([], [Put(key, json.dumps(value).encode())])

    def uses(self, name: str, revision: int) -> None:
        self.put(KEYS.applied_by(name), msgspec.to_builtins(Applied(revision)))

    def there(self, key: str = KEY) -> object:
        item = self.store.keys.get(key)
        return None if item is None else json.loads(item.value)


async def test_an_entry_is_made_changed_and_taken_away_and_in_use_here_when_it_returns():
    writing = Writing()
    for before, after in ((None, {"a": 1}), ({"a": 1}, {"a": 2}), ({"a": 2}, None)):
        seen: list[object] = []
        await writing.writer.edit(KEY, lambda table, after=after, seen=seen: (seen.append(table), after)[1])
        assert (seen, writing.there()) == ([before], after)
        assert writing.reached[-1] == writing.store.revision
    written = writing.store.revision
    await writing.writer.edit(KEY, lambda table: None)
    assert writing.store.revision == written, "nothing to take away: nothing is written"


async def test_an_entry_of_a_resource_is_refused_by_its_name():
    writing = Writing()
    writing.put(KEYS.marker(KEY), {"kind": "StompQueue", "namespace": "shop", "name": "orders"})
    with pytest.raises(NotPossible, match="orders belongs to StompQueue shop/orders of Kubernetes"):
        await writing.writer.edit(KEY, lambda table: {"a": 1})
    assert writing.there() is None and not writing.reached


async def test_a_resource_that_claims_it_at_the_same_moment_wins():
    writing = Writing()
    claims = iter([{"kind": "StompQueue", "name": "orders"}])

    def change(table: object) -> dict[str, int]:
        for claim in claims:
            writing.put(KEYS.marker(KEY), claim)
        return {"a": 1}

    with pytest.raises(NotPossible, match="StompQueue"):
        await writing.writer.edit(KEY, change)
    assert writing.there() is None


async def test_two_that_change_the_same_entry_both_see_what_the_other_made_of_it():
    writing = Writing()

    def one_more(table: dict | None) -> dict:
        return {"n": (table or {}).get("n", 0) + 1}

    await asyncio.gather(*(writing.writer.edit(KEY, one_more) for _ in range(3)))
    assert writing.there() == {"n": 3}


async def test_one_that_never_gets_its_turn_gives_up():
    writing, asked = Writing(), []

    def overtaken(table: object) -> dict[str, int]:
        asked.append(1)
        writing.put(KEY, {"n": len(asked)})
        return {"n": 0}

    with pytest.raises(NotPossible, match="changes all the time"):
        await writing.writer.edit(KEY, overtaken)
    assert len(asked) == ATTEMPTS


async def test_two_that_each_take_away_the_last_but_one_do_not_both_succeed():
    writing, part = Writing(), KEY.removeprefix(KEYS.config).partition("/")[0]
    for name in ("orders", "bills"):
        writing.put(KEYS.queue(name), {})

    def one_is_left(entries: dict) -> None:
        if len(entries) < 2:
            raise NotPossible("the last one stays")

    edits = [writing.writer.edit(KEYS.queue(n), lambda table: None, part, one_is_left) for n in ("orders", "bills")]
    ends = await asyncio.gather(*edits, return_exceptions=True)
    assert sorted(map(str, ends)) == ["None", "the last one stays"]
    assert [writing.there(KEYS.queue(n)) for n in ("orders", "bills")].count(None) == 1


async def test_a_store_that_gives_no_answer_may_have_made_the_change(monkeypatch):
    monkeypatch.setattr(config_writer, "ANSWER_S", 0.02)
    writing = Writing()
    writing.store.stop()
    with pytest.raises(NotKnown, match="may have been made"):
        await writing.writer.edit(KEY, lambda table: {"a": 1})


async def test_a_change_that_is_not_in_use_here_yet_is_not_told_as_one_that_is(monkeypatch):
    monkeypatch.setattr(config_writer, "ANSWER_S", 0.02)
    writing = Writing()
    writing.writer._config.reached = lambda revision: asyncio.sleep(3600)
    with pytest.raises(NotKnown, match="not in use here yet"):
        await writing.writer.edit(KEY, lambda table: {"a": 1})
    assert writing.there() == {"a": 1}


async def test_who_does_not_use_it_yet_is_named_and_who_leaves_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(config_writer, "ANSWER_S", 0.1)
    monkeypatch.setattr(config_writer, "LOOK_S", 0.01)
    writing = Writing()
    await writing.writer.edit(KEY, lambda table: {"a": 1})
    change = writing.store.revision
    writing.uses("a", change)
    writing.uses("e0", change - 1)
    assert await writing.writer.behind() == ["e0"]
    looking = asyncio.create_task(writing.writer.behind())
    await asyncio.sleep(0.02)
    writing.uses("e0", change)
    assert await looking == []


async def test_when_nobody_can_be_asked_all_the_others_count_as_behind(monkeypatch):
    monkeypatch.setattr(config_writer, "ANSWER_S", 0.02)
    writing = Writing()
    await writing.writer.edit(KEY, lambda table: {"a": 1})
    writing.store.stop()
    assert await writing.writer.behind() == ["e0"]
