"""All owners are asked at once: who does not answer is named, and waited for once."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from broker.admin.api.fan_out import ANSWER_S, SILENT_S, OtherEdges, Spread
from broker.admin.api.problems import Problem


class Port:
    """Owners that answer when they are told to."""

    def __init__(self, *owners: str) -> None:
        self.owners, self.left, self.hang = owners, [], set()
        self.served_by_nobody: list[int] = []

    def ask(self, question, done):
        for owner in self.owners:
            if owner in self.hang:
                self.left.append(lambda owner=owner: done(owner, b'{"of": "late"}', ""))
            else:
                asyncio.get_running_loop().call_soon(done, owner, json.dumps({"of": owner}).encode(), "")
        return list(self.owners)

    def unserved(self) -> int:
        return self.served_by_nobody.pop(0) if self.served_by_nobody else 0


async def timed(spread: Spread) -> tuple[list[str], list[str], float]:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    answers, missing = await spread.ask({"kind": "totals"})
    return [answer["of"] for answer in answers], [one.owner for one in missing], loop.time() - begun


@pytest.mark.parametrize("before, after", [(3, 3), (3, 0), (0, 3)])
async def test_answers_come_in_the_order_of_the_owners_and_slots_that_nobody_serves_are_named(before, after):
    """Also those that are served since: their owner may have answered before."""
    port = Port("a", "b")
    port.served_by_nobody = [before, after]
    assert (await timed(Spread(port)))[:2] == (["a", "b"], ["3 slots"])


async def test_nobody_asked_is_nobody_waited_for():
    assert (await timed(Spread(Port())))[:2] == ([], [])


async def test_one_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("broker.admin.api.fan_out.ANSWER_S", 0.4)
    monkeypatch.setattr("broker.admin.api.fan_out.SILENT_S", 0.05)
    assert 0 < SILENT_S < ANSWER_S
    port = Port("a", "b")
    spread = Spread(port)
    port.hang = {"b"}
    answers, missing, took = await timed(spread)
    assert (answers, missing) == (["a"], ["b"]) and took >= 0.4
    answers, missing, took = await timed(spread)
    assert (answers, missing) == (["a"], ["b"]) and 0.05 <= took < 0.4
    port.left[0]()  # it lives after all, and answers what it was asked long ago
    answers, missing, took = await timed(spread)
    assert missing == ["b"] and took >= 0.4
    port.hang = set()
    assert (await timed(spread))[:2] == (["a", "b"], [])


async def test_another_one_that_is_slow_has_its_time_beside_one_that_hangs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("broker.admin.api.fan_out.ANSWER_S", 0.4)
    monkeypatch.setattr("broker.admin.api.fan_out.SILENT_S", 0.02)
    port = Port("a", "b")
    spread = Spread(port)
    port.hang = {"b"}
    await timed(spread)
    port.hang = {"a", "b"}
    port.left.clear()
    asyncio.get_running_loop().call_later(0.1, lambda: port.left[0]())
    answers, missing, _ = await timed(spread)
    assert (answers, missing) == (["late"], ["b"])


class Relay:
    """An owner that has asked the other edges."""

    def __init__(self, answer: object = None, why: str = "", silent: bool = False) -> None:
        self.answer, self.why, self.silent = answer, why, silent
        self.asked: list[dict] = []
        self.named: list[str] = []

    def ask_edges(self, question, done, edge=""):
        self.asked.append(json.loads(question))
        self.named.append(edge)
        if not self.silent:
            told = None if self.answer is None else msgspec.json.encode(self.answer)
            asyncio.get_running_loop().call_soon(done, told, self.why)


def edges(relay: Relay, *names: str) -> OtherEdges:
    return OtherEdges(relay, "e0", lambda: list(names))  # type: ignore[arg-type]


async def test_what_other_edges_say_and_who_of_them_says_nothing():
    said = {"answers": {"e1": {"total": 1}, "e9": {"total": 9}}, "failed": {"e2": "it is busy"}}
    answers, missing = await edges(Relay(said), "e1", "e2", "e3").ask({"kind": "clients"})
    assert answers == [{"total": 1}], "e9 is none that is known any more"
    assert [(one.owner, one.why) for one in missing] == [
        ("e2", "it is busy"), ("e3", "the owner that was asked has no connection to it"),
    ]  # fmt: skip


async def test_one_edge_is_asked_for_by_its_name():
    relay = Relay({"answers": {"e1": {"total": 1}, "e2": {"total": 2}}, "failed": {}})
    assert await edges(relay, "e1", "e2").ask({"kind": "connection", "edge": "e2"}) == ([{"total": 2}], [])
    with pytest.raises(Problem, match="no edge 'e7'"):
        await edges(relay, "e1").ask({"kind": "connection", "edge": "e7"})
    assert len(relay.asked) == 1 and relay.named == ["e2"], "that one alone"


async def test_nobody_else_and_nobody_who_answers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("broker.admin.api.fan_out.ANSWER_S", 0.05)
    assert await edges(Relay()).ask({"kind": "clients"}) == ([], [])
    for relay, why in ((Relay(why="no owner is reached"), "no owner"), (Relay(silent=True), "no answer")):
        answers, missing = await edges(relay, "e1").ask({"kind": "clients"})
        assert answers == [] and missing[0].owner == "e1" and why in missing[0].why
