"""Connections as operators see them: sorted, filtered, paged, and ended once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.errors import Code
from broker.edge.connection_views import PAUSED, VALUES, Clients


def session(id: int, user: str, peer: str = "h", client_id: str = "", **more: Any) -> Any:
    told: dict[str, Any] = {
        "closed": False, "leaving": False, "connected": True, "failed": [], "subscriptions": {}, "bytes_in": id * 10,
        "transacted": 0, "blocked": None, "inbound": SimpleNamespace(held_by=()), **more,
    }  # fmt: skip
    made = SimpleNamespace(
        id=id, principal=user, client_id=client_id, host=SimpleNamespace(name="/"),
        version=SimpleNamespace(value="1.2"), outbound=SimpleNamespace(nbytes=100 - id),
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


def full(*addresses: str, nbytes: int = 9) -> Any:
    return SimpleNamespace(nbytes=nbytes, awaited=lambda: list(addresses))


def paused(*words: str) -> Any:
    return SimpleNamespace(held_by=set(words))


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


def test_who_cannot_send_on_is_found_with_what_it_waits_for():
    of = clients(
        session(1, "ada"), session(2, "bob", blocked=full("orders", "mail")), session(3, "eve", inbound=paused("rate")),
        session(4, "joe", blocked=full(nbytes=0), inbound=paused("park", "breath")),
    )  # fmt: skip
    found = answer(of, "connections", blocked=True)
    assert [(row["id"], row["blocked_bytes"], row["blocked_by"]) for row in found["rows"]] == [
        (2, 9, ["address orders is full", "address mail is full"]), (3, 0, [PAUSED["rate"]]),
    ]  # fmt: skip
    assert [row["id"] for row in answer(of, "connections", blocked=False)["rows"]] == [1, 4], "a turn is no block"


@pytest.mark.parametrize(("peer", "ids"), [("10.0.0.1", [1, 2]), ("10.0.0.1:5", [1]), ("::1", [3]), ("10.0.0", [])])
def test_those_from_an_address(peer, ids):
    of = clients(session(1, "a", "10.0.0.1:5"), session(2, "b", "10.0.0.1:6"), session(3, "c", "[::1]:5"))
    assert [row["id"] for row in answer(of, "connections", peer=peer)["rows"]] == ids


def test_edges_with_the_same_numbers_are_told_apart_on_every_page():
    one, two = (clients(*(session(n, "u") for n in range(4))) for _ in range(2))
    one._name, two._name = "e1", "e2"
    seen, after = [], None
    for _ in range(8):
        pages = [answer(of, "connections", sort="user", limit=1, after=after) for of in (one, two)]
        row = min((page["rows"][0] for page in pages if page["rows"]), key=lambda row: row["at"])
        seen.append((row["id"], row["edge"]))
        after = row["at"]
    assert seen == [(n, edge) for n in range(4) for edge in ("e1", "e2")]


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
    assert answer(of, "disconnect", id=1, why="again") == {"ended": True}
    assert answer(of, "disconnect", id=4, why="again") == {"ended": False}


def test_what_is_asked_of_another_edge_is_not_done_here():
    """Each edge of a cluster numbers its own connections, and a question about one of them goes to all others."""
    of = clients(*PEOPLE)
    of._name = "edge-b"
    assert answer(of, "disconnect", id=1, why="why", edge="edge-c") == {"ended": False}
    assert answer(of, "connection", id=1, edge="edge-c") == {} and not PEOPLE[0].failed
    assert answer(of, "connection", id=1, edge="edge-b")["edge"] == "edge-b"
    assert answer(of, "disconnect", id=1, why="why", edge="edge-b") == {"ended": True}
