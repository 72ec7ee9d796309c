"""Whole bodies, piece by piece: what cannot be read is said, and so is that too many are under way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiohttp import ClientPayloadError

from broker.admin.api.problems import Problem
from broker.admin.api.streams import downloads
from broker.client import connect
from tests.harness.api import running


class Pieces:
    """A body on a disk."""

    def __init__(self, *pieces: bytes | None, why: str = "") -> None:
        self.pieces, self.why = list(pieces), why

    def read(self, n, done):
        done(self.pieces.pop(0), self.why)

    def close(self) -> None:
        self.pieces.clear()


async def test_pieces_follow_each_other_to_the_end_and_a_broken_disk_is_named():
    assert [piece async for piece in downloads._pieces(Pieces(b"a", b"bc", b""))] == [b"a", b"bc"]
    broken = downloads._pieces(Pieces(b"a", None, why="bad block"))
    assert await anext(broken) == b"a"
    with pytest.raises(Problem, match="bad block"):
        await anext(broken)


async def test_a_body_that_is_away_is_a_problem_and_room_for_the_next_one_comes_back(tmp_path, monkeypatch):
    async with running(tmp_path, wire={"large_body_bytes": 1000}) as api:
        async with connect(api.url) as client:
            await client.send("orders", b"x" * 5000, {"destination-type": "ANYCAST"}, receipt=True)
        (row,) = (await api.get("/queues/orders/messages"))["items"]
        path = f"/api/v1/queues/orders/messages/{row['id']}/body"
        own = api.broker.admin._api.downloads
        monkeypatch.setattr(own, "_open", lambda slot, run: (Pieces(None, why="it is not there"), 5000))
        for _ in range(downloads.AT_ONCE + 1):
            async with api.http.get(path) as answer:
                told = await answer.json(content_type=None)
                assert (answer.status, told["type"]) == (503, "urn:stampede:problem:body-unreadable")
        monkeypatch.setattr(downloads, "AT_ONCE", 0)
        async with api.http.get(path) as answer:
            assert (await answer.json(content_type=None))["type"] == "urn:stampede:problem:too-many-downloads"


async def test_what_breaks_on_the_way_ends_the_connection_and_says_nothing(tmp_path, monkeypatch, caplog):
    """The answer that said why stood in the middle of the body, whose length it could make up for."""
    async with running(tmp_path, wire={"large_body_bytes": 1000}) as api:
        async with connect(api.url) as client:
            await client.send("orders", b"x" * 5000, {"destination-type": "ANYCAST"}, receipt=True)
        (row,) = (await api.get("/queues/orders/messages"))["items"]
        own = api.broker.admin._api.downloads
        monkeypatch.setattr(own, "_open", lambda slot, run: (Pieces(b"x" * 4900, None, why="bad block"), 5000))
        async with api.http.get(f"/api/v1/queues/orders/messages/{row['id']}/body") as answer:
            got = b""
            with pytest.raises(ClientPayloadError):
                async for piece in answer.content.iter_any():
                    got += piece
            assert answer.status == 200 and got.strip(b"x") == b""
        assert "bad block" in caplog.text and own._under_way == 0


class Deaf:
    """An answer that nobody takes."""

    prepared = True

    async def write(self, piece: bytes) -> None:
        await asyncio.sleep(60)


async def test_who_takes_nothing_from_the_first_piece_on_has_gone(monkeypatch):
    monkeypatch.setattr(downloads, "PATIENCE_S", 0.01)
    ends: list[bool] = []
    request = SimpleNamespace(path="/x", transport=SimpleNamespace(abort=lambda: ends.append(True)))
    await downloads._pass_on(downloads._one(b"x"), Deaf(), request)
    assert ends == [True]
