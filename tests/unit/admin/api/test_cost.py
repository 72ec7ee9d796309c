"""What operators ask must not hold up clients: with 100,000 queues and 20,000 connections no step of an answer takes
more than 5 ms of the processor."""

from __future__ import annotations

import gc
import time
from types import SimpleNamespace

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.effects import Turn
from broker.edge.connection_views import Clients
from broker.engine.engine import Engine
from broker.engine.routing.addresses import create
from broker.engine.state.budget import Budget
from broker.owner.shard.views import SORTS, Views
from broker.seams.clock import SystemClock
from broker.wire.versions import Version

QUEUES, CONNECTIONS = 100_000, 20_000
SLOTS = 8
"""Of 64 that a broker has: the copy of a slot's references is one step, 0.1 µs for each of its queues."""
STEP_S = 0.005


@pytest.fixture(scope="module")
def views():
    budget = Budget(2 * QUEUES)
    engines = {number: Engine(number, EngineSettings(), budget) for number in range(SLOTS)}
    for number, engine in engines.items():
        turn = Turn(1, 1)
        for n in range(QUEUES // SLOTS):
            name = f"queue.{n * 7919 % QUEUES}.{number}"
            create(engine.shown, name, name, Routing.ANYCAST, turn).count = n % 100
        turn.appends.clear()
    space = SimpleNamespace(name="ENOUGH")
    journal = SimpleNamespace(disk_bytes=lambda: 1, free_bytes=1, space=space)
    return Views(SimpleNamespace(engines=engines, journal=journal, latencies=None), SystemClock())


@pytest.fixture(scope="module")
def clients():
    def session(n: int):
        channel = SimpleNamespace(peer=f"10.0.{n % 256}.1:{n}", transport_name="tcp", tls_subject=None)
        return SimpleNamespace(
            id=n, channel=channel, principal=f"user{n % 100}", client_id=f"client-{n}", version=Version.V12,
            leaving=False, closed=False, connected=True, subscriptions={}, bytes_in=n,
            outbound=SimpleNamespace(nbytes=n), watch=SimpleNamespace(told={}), transacted=0,
            blocked=None, inbound=SimpleNamespace(held_by=()),
            host=SimpleNamespace(name=""),
        )  # fmt: skip

    return Clients(SimpleNamespace(sessions={n: session(n) for n in range(CONNECTIONS)}))


def steps(work) -> tuple[list[float], dict]:
    """Seconds of the processor of each step, and the answer."""
    took = []
    while True:
        began = time.thread_time()
        try:
            next(work)
        except StopIteration as end:
            return [*took, time.thread_time() - began], end.value
        took.append(time.thread_time() - began)


def check(make, question) -> dict:
    """Each step by its best of five to twenty, as they are the same steps each time: the caches of the processor are
    not ours alone, and with 800 steps there is always one that somebody else made long."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        took, answer = steps(make(question))
        best = took
        for number in range(1, 20):
            if number >= 5 and max(best) <= STEP_S:
                break
            took, _ = steps(make(question))
            assert len(took) == len(best), "the same steps each time"
            best = [min(pair) for pair in zip(best, took, strict=True)]
    finally:
        gc.enable()
        gc.unfreeze()
    assert max(best) <= STEP_S, (question, max(best))
    return answer


def listed(kind: str, sort: str, descending: bool = False, **more) -> dict:
    return {"kind": kind, "limit": 500, "sort": sort, "descending": descending, **more}


@pytest.mark.parametrize(("sort", "descending"), [("name", False), ("messages", True), ("delivering", True)])
def test_a_page_of_queues(views, sort, descending):
    assert sort in SORTS["queues"]
    answer = check(views.answer, listed("queues", sort, descending))
    assert answer["total"] == QUEUES and len(answer["rows"]) == 500
    values = [row["at"] for row in answer["rows"]]
    assert values == sorted(values, reverse=descending)


def test_other_questions(views):
    answer = check(views.answer, listed("queues", "name", q="7.1", filled=True, may=[["queue.#", True]]))
    assert 0 < answer["total"] < QUEUES
    assert check(views.answer, listed("addresses", "name"))["total"] == QUEUES
    assert check(views.answer, {"kind": "totals"})["queues"] == QUEUES
    assert check(views.answer, {"kind": "queue", "name": "queue.7919.1"})["rows"][0]["name"] == "queue.7919.1"


def test_pages_follow_each_other_without_gap_or_repetition(views):
    names, after = [], None
    for _ in range(2):
        answer = check(views.answer, listed("queues", "messages", True, after=after))
        names += [row["name"] for row in answer["rows"]]
        after = answer["rows"][-1]["at"]
    assert len(names) == len(set(names)) == 1000


@pytest.mark.parametrize("sort", ["peer", "bytes_in"])
def test_a_page_of_connections(clients, sort):
    answer = check(clients.answer, listed("connections", sort, q="user7"))
    assert answer["total"] > 1000 and len(answer["rows"]) == 500
