"""What owners say of their addresses is added up, or is no answer at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from broker_operator.world import owner_depths
from broker_operator.world.address_traffic import Busy
from broker_operator.world.owner_depths import NoAnswer, OwnerQueries

from broker.core.slots import Member, SlotRecord

END = b'{"end": true}\n'
ONE = b'{"address": "q", "waiting": 1, "delivering": 2, "scheduled": 3, "consumers": 4, "came": 9, "died": 1}\n'
FULL = b'{"address": "q", "waiting": 5, "came": 6, "blocked": true}\n{"address": "not-ours", "waiting": 7}\n'


@asynccontextmanager
async def owners(*texts: Any) -> AsyncIterator[Any]:
    """A cluster whose owners answer so (or with this status, or by this handler)."""
    members: dict[str, Member] = {}
    runners: list[web.AppRunner] = []
    for number, text in enumerate(texts):

        async def answer(_: web.Request, text: bytes | int = text) -> web.Response:
            return web.Response(body=text) if isinstance(text, bytes) else web.Response(status=text)

        app = web.Application()
        app.router.add_get("/api/busy", text if callable(text) else answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        admin = f"127.0.0.1:{runner.addresses[0][1]}"
        members[f"o-{number}"] = Member(f"o-{number}", "owner", "a:1", "boot", admin=admin)
    records = {n: SlotRecord(n, 1, id, (id,), (id,)) for n, id in enumerate(members)}
    yield SimpleNamespace(members=members, records=records, whole=True)
    for runner in runners:
        await runner.cleanup()


async def ask(cluster: Any, token: str = "") -> dict[str, Busy]:
    asker = OwnerQueries()
    try:
        return await asker.ask(cluster, {"q", "idle"}, token)
    finally:
        await asker.close()


async def test_what_all_owners_say_of_our_addresses_is_added_up():
    async with owners(ONE + END, FULL + END) as cluster:
        assert await ask(cluster) == {"q": Busy(11, 4, 15, 1, True)}


@pytest.mark.parametrize("other", [ONE, b"", b"not json\n" + END, 404, 500])
async def test_an_answer_that_is_cut_short_or_makes_no_sense_is_none(other: bytes | int):
    async with owners(ONE + END, other) as cluster:
        with pytest.raises(NoAnswer, match="o-1"):
            await ask(cluster)


async def test_owners_are_shown_the_token_of_the_broker_and_another_one_is_named():
    shown: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization", ""))
        return web.Response(body=ONE + END) if shown[-1] == "Bearer right" else web.Response(status=401)

    async with owners(answer) as cluster:
        assert await ask(cluster, "right") == {"q": Busy(6, 4, 9, 1)}
        for token in ("", "wrong"):
            with pytest.raises(NoAnswer, match="o-0 wants another token than that of spec"):
                await ask(cluster, token)
    assert shown == ["Bearer right", "", "Bearer wrong"]


async def test_without_a_leader_of_each_slot_nobody_is_asked(monkeypatch):
    async with owners(ONE + END) as cluster:
        cluster.whole = False
        with pytest.raises(NoAnswer, match="leader"):
            await ask(cluster)
        cluster.whole = True
        cluster.records[5] = SlotRecord(5, 1, "gone", ("gone",), ("gone",))
        with pytest.raises(NoAnswer, match="leader"):
            await ask(cluster)
        del cluster.records[5]
        assert await ask(cluster)
        monkeypatch.setattr(owner_depths, "MOST", 1)
        with pytest.raises(NoAnswer, match="more than"):
            await ask(cluster)
