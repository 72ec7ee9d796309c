"""What the operator has looked at, and what it knows, whatever the API server tells in whatever order."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from broker_operator import process
from broker_operator.etcd.unapplied import Unapplied
from broker_operator.kube.kube import KubeError
from broker_operator.kube.workqueue import WorkQueue
from broker_operator.process import SWEEP, Operator, Options
from broker_operator.spec.names import ACCEPTOR, ADDRESS, BACKUP, BROKER, PLURALS, USER, Id

from tests.harness.waiting import eventually

from .builders import raw

ADA, STOMP, SHOP = Id(USER, "shop", "ada"), Id(BROKER, "shop", "stomp"), Id(SWEEP, "shop", "stomp")
Table = dict[str, Any]


class Server:
    """held: kind → what a list has. tell(): what a watch tells next; an error ends it."""

    def __init__(self, *held: Table) -> None:
        self.held: dict[str, list[Table]] = defaultdict(list)
        for each in held:
            self.held[each["kind"]].append(each)
        self.watches: dict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self.lists: Counter[str] = Counter()
        self.unknown = ""

    async def served(self) -> dict[str, list[str]]:
        return {}

    async def serves(self, api_version: str, kind: str) -> bool:
        return kind != self.unknown

    async def read_list(self, _: str, kind: str, namespace: str, selector: str = "", *, meta: bool = False) -> Table:
        assert kind != self.unknown
        self.lists[kind] += 1
        return {"items": [{**item} for item in self.held[kind]], "metadata": {"resourceVersion": "1"}}

    async def watch(self, _: str, kind: str, *__: str, meta: bool = False) -> AsyncIterator[Table]:
        while True:
            told = await self.watches[kind].get()
            if isinstance(told, Exception):
                raise told
            yield told

    def tell(self, type: str, item: Table) -> None:
        self.watches[item["kind"]].put_nowait({"type": type, "object": {**item}})


@asynccontextmanager
async def operating(server: Server) -> AsyncIterator[tuple[Operator, list[Id]]]:
    """(operator, what it has looked at)."""
    operator = Operator(server, Options())  # type: ignore[arg-type]
    looked: list[Id] = []

    async def work(id: Id) -> None:
        looked.append(id)

    operator.queue._work = work
    await operator.start()
    try:
        yield operator, looked
    finally:
        await operator.stop()


async def test_an_operator_that_ends_does_no_more_work():
    """It may have lost its lease: whoever has it next begins at once."""
    async with operating(Server()) as (operator, worked):
        at_work = asyncio.Event()

        async def work(id: Id) -> None:
            worked.append(id)
            at_work.set()
            await asyncio.sleep(0)

        operator.queue = WorkQueue(work)
        operator.queue.start()
        operator.queue.add(ADA)
        await at_work.wait()
        ending = asyncio.create_task(operator.stop())
        await asyncio.sleep(0)
        before = len(worked)
        while not ending.done():
            operator.queue.add(ADA)
            await asyncio.sleep(0.001)
        assert len(worked) == before


async def test_everything_that_is_there_is_known_before_anything_is_done():
    """The keys of a resource that is not known yet would be given back by the first sweep."""
    server = Server(*(raw(kind) for kind in PLURALS))
    async with operating(server) as (operator, looked):
        assert looked == []
        assert {id.kind for id in operator.cache.resources} == set(PLURALS)
        await eventually(lambda: {id.kind for id in looked} >= set(PLURALS))


@pytest.mark.parametrize("kind", PLURALS)
async def test_each_kind_is_followed(kind):
    server, item = Server(), raw(kind, "it")
    id = Id(kind, "shop", "it")
    async with operating(server) as (operator, looked):
        server.tell("ADDED", item)
        await eventually(lambda: id in looked and id in operator.cache.resources)
        looked.clear()
        server.tell("DELETED", item)
        await eventually(lambda: id in looked)
        assert id not in operator.cache.resources


async def test_what_went_while_no_watch_was_open_is_known_to_have_gone(monkeypatch):
    monkeypatch.setattr("broker_operator.kube.informer.RETRY_S", 0.01)
    server = Server(raw(BROKER), raw(USER))
    async with operating(server) as (operator, looked):
        await eventually(lambda: ADA in looked)
        looked.clear()
        server.held[USER] = []
        server.watches[USER].put_nowait(KubeError(410, "too old"))
        await eventually(lambda: SHOP in looked)  # its keys are given back
        assert set(operator.cache.resources) == {STOMP}


async def test_one_that_was_made_anew_while_no_watch_was_open_is_the_new_one(monkeypatch):
    """Nobody tells that the first one is gone: what it had is given back all the same."""
    monkeypatch.setattr("broker_operator.kube.informer.RETRY_S", 0.01)
    server, new = Server(raw(BROKER), raw(USER)), raw(USER)
    async with operating(server) as (operator, looked):
        await eventually(lambda: ADA in looked)
        looked.clear()
        server.held[USER] = [new]
        server.watches[USER].put_nowait(KubeError(410, "too old"))
        await eventually(lambda: SHOP in looked and ADA in looked)
        assert operator.cache.resources[ADA].uid == new["metadata"]["uid"]


async def test_the_end_of_an_older_one_of_its_name_is_not_the_end_of_the_new_one():
    """A write of ours may have brought the new one before its watch tells of either."""
    server, old, new = Server(), raw(USER), raw(USER)
    async with operating(server) as (operator, looked):
        server.tell("ADDED", old)
        await eventually(lambda: ADA in looked)
        operator.cache.put({**new})
        server.tell("DELETED", old)
        server.tell("ADDED", raw(USER, "last"))
        await eventually(lambda: Id(USER, "shop", "last") in looked)
        assert operator.cache.resources[ADA].uid == new["metadata"]["uid"]


@pytest.mark.parametrize("kind", [ACCEPTOR, ADDRESS, USER])
async def test_whoever_names_a_broker_is_looked_at_when_it_comes_and_goes(kind):
    broker, item = raw(BROKER), raw(kind, "it")
    server, id = Server(item), Id(kind, "shop", "it")
    async with operating(server) as (_, looked):
        for type in ("ADDED", "DELETED"):
            await eventually(lambda: id in looked)
            looked.clear()
            server.tell(type, broker)
            await eventually(lambda: STOMP in looked and id in looked)


async def test_a_broker_is_looked_at_when_the_secret_of_its_metrics_token_changes():
    """Its owners follow the file within a minute or so; the operator went on showing the old one for up to five."""
    server = Server(raw(BROKER, "stomp", scrapers={"tokenSecretName": "metrics"}))
    async with operating(server) as (_, looked):
        await eventually(lambda: STOMP in looked)
        looked.clear()
        for name in ("another", "metrics"):
            meta = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "2"}
            server.tell("MODIFIED", {"kind": "Secret", "metadata": meta})
        await eventually(lambda: looked == [STOMP])


async def test_what_is_being_deleted_is_swept_at_once():
    server, ada = Server(), raw(USER)
    async with operating(server) as (_, looked):
        ada["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        server.tell("ADDED", ada)
        await eventually(lambda: SHOP in looked)


async def test_everything_is_looked_at_from_time_to_time(monkeypatch):
    monkeypatch.setattr(process, "RESYNC_S", 0.05)
    async with operating(Server(raw(BROKER), raw(USER))) as (_, looked):
        await eventually(lambda: looked.count(ADA) > 3 and looked.count(STOMP) > 3)


async def test_a_loop_that_ends_ends_the_process(monkeypatch):
    """Or nobody would look at anything any more, and the lease would say that somebody does."""
    monkeypatch.setattr(process, "RESYNC_S", 0.01)
    operator = Operator(Server(), Options())  # type: ignore[arg-type]

    def broken() -> None:
        raise ValueError("what is this?")

    monkeypatch.setattr(operator, "_look_at_all", broken)
    try:
        with pytest.raises(ValueError, match="what is this"):
            await asyncio.wait_for(operator.run(), 5)
    finally:
        await operator.stop()


async def test_nobody_waits_for_what_is_gone():
    operator = Operator(Server(), Options())  # type: ignore[arg-type]
    waiting = operator.etcd_reconciler.pending[STOMP] = Unapplied()
    waiting.wait(ADA, 7)
    waiting.wait(Id(USER, "shop", "bob"), 8)
    operator.etcd_reconciler.gone(ADA)
    assert waiting.revisions == {Id(USER, "shop", "bob"): 8}
    operator.etcd_reconciler.gone(STOMP)
    assert operator.etcd_reconciler.pending == {}


async def test_a_kind_that_came_later_may_be_missing():
    """Where somebody else applies the kinds, the operator's release may be newer."""
    server = Server(raw(BROKER))
    server.unknown = BACKUP
    async with operating(server) as (operator, _):
        assert [one.kind for one in operator.cache.resources] == [BROKER]
