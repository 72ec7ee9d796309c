"""Connections as operators see them: sorted, filtered, paged, and ended once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.errors import Code
from broker.edge.portrait import VALUES, Clients


def session(id: int, user: str, peer: str = "h", client_id: str = "", **more: Any) -> Any:
    told: dict[str, Any] = {
        "closed": False, "leaving": False, "connected": True, "failed": [], "subscriptions": {}, "bytes_in": id * 10,
        "transacted": 0, **more,
    }  # fmt: skip
    made = SimpleNamespace(
        id=id, principal=user, client_id=client_id, host=SimpleNamespace(name="/"),
        version=SimpleNamespace(value="1.2"), outbox=SimpleNamespace(nbytes=100 - id),
        channel=SimpleNamespace(peer=peer, transport_name="tcp", tls_subject=""),
        watch=SimpleNamespace(told={"gone_after_s": 3}), **told,
    )  # fmt: skip
    made.fail = lambda *what, at_once: made.failed.append((*what, at_once))
    return made


def clients(*sessions: Any) -> Clients:
    counters = SimpleNamespace(connections={"tcp": 3, "ws": 0}, bytes_in=7)
    edge = SimpleNamespace(sessions={it.id: it for it in sessions}, counters=counters, consumers={1: 1, 2: 2})
    return Clients(edge, lambda: [{"name": "tcp"}, {"name": "tls"}])  # type: ignore[arg-type]


def answer(of: Clients, kind: str, **more: Any) -> Any:
    work = of.answer({"kind": kind, "limit": 10, "sort": "id", "descending": False, **more})
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


PEOPLE = (session(1, "ada", "x"), session(2, "bob", "y", "adas"), session(3, "eve", "ada:1"), session(4, "ada2", "z"))


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({}, [1, 2, 3, 4]),
        ({"sort": "bytes_out"}, [4, 3, 2, 1]),
        ({"sort": "bytes_in", "descending": True}, [4, 3, 2, 1]),
        ({"q": "ada"}, [1, 2, 3, 4]),
        ({"q": "z"}, [4]),
        ({"user": "ada"}, [1]),
        ({"user": "ada", "q": "z"}, []),
    ],
)
def test_those_that_are_meant_in_the_order_that_is_meant(asked, ids):
    found = answer(clients(*PEOPLE), "connections", **asked)
    assert [row["id"] for row in found["rows"]] == ids and (found["total"], found["more"]) == (len(ids), False)


def test_pages_follow_each_other_whatever_they_are_sorted_by():
    of = clients(*(session(n, f"u{n % 3}") for n in range(300)))
    for sort in VALUES:
        seen, after = [], None
        while True:
            page = answer(of, "connections", sort=sort, limit=70, after=after)
            seen += [row["id"] for row in page["rows"]]
            if not page["more"]:
                break
            after = page["rows"][-1]["at"]
        assert sorted(seen) == list(range(300)), sort


@pytest.mark.parametrize(
    ("flags", "state"),
    [({}, "open"), ({"connected": False}, "connecting"), ({"leaving": True}, "closing"), ({"closed": True}, "closing")],
)
def test_one_in_detail(flags, state):
    of = clients(session(5, "ada", **flags))
    found = answer(of, "connection", id=5)
    assert (found["state"], found["heart_beat"], found["transacted"]) == (state, {"gone_after_s": 3}, 0)
    assert found["version"] == ("" if state == "connecting" else "1.2")
    assert answer(of, "connection", id=6) == {}


def test_totals_and_ports():
    of = clients(*PEOPLE)
    assert answer(of, "clients") == {
        "connections": 4, "subscriptions": 2, "bytes_in": 7, "by_acceptor": {"tcp": 3},
    }  # fmt: skip
    assert answer(of, "acceptors") == {"rows": [{"name": "tcp", "connections": 3}, {"name": "tls", "connections": 0}]}


def test_one_is_ended_with_the_reason_and_only_while_it_is_there():
    there, leaving, gone = session(1, "ada"), session(2, "bob", leaving=True), session(3, "eve", closed=True)
    of = clients(there, leaving, gone)
    assert [of.disconnect(id, "why") for id in (1, 2, 3, 4)] == [True, True, False, False]
    assert there.failed == [(Code.DISCONNECTED, "why", False)] and leaving.failed == [(Code.DISCONNECTED, "why", True)]
    assert gone.failed == []
