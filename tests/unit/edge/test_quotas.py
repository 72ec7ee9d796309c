"""Quotas: what one user, virtual host or address may use; refused by name, live, and shared among edges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.commands import UNLIMITED, Publish, Subscribe
from broker.core.errors import Code, RefusedError
from broker.edge.quotas.quotas import Quotas, Resource

from .bench import Bench
from .clocked import Socket


def quotas(table: dict[str, dict[str, int]]) -> Quotas:
    return Quotas(table)


def bench(**table: dict[str, int]) -> Bench:
    return Bench(quotas={name.replace("_each", ":*").replace("_", ":", 1): values for name, values in table.items()})


def connected(bench: Bench, peer: str = "10.0.0.7:1") -> tuple[Any, Socket]:
    socket = Socket()
    socket.peer = peer
    session = bench.edge.open(socket)  # type: ignore[arg-type]
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    return session, socket


def answer(own: Bench, session: Any) -> None:
    """Owners have carried out all that it asked for."""
    for seq in sorted({seq for command in own.port.commands if (seq := getattr(command, "seq", 0) or _inner(command))}):
        session.done(seq)


def _inner(command: Any) -> int:
    return getattr(getattr(command, "model", None), "seq", 0)


def refusal(socket: Socket) -> str:
    sent = bytes(socket.sent).decode()
    assert f"error-code:{Code.QUOTA.number}\n" in sent, sent
    return sent


async def test_without_an_entry_nobody_counts():
    session, _ = connected(Bench())
    assert session.usage is None and not session.edge.quotas.accounts


async def test_a_user_has_so_many_connections_and_a_place_that_is_left_is_free():
    own = bench(user_each={"max_connections": 1})
    first, _ = connected(own)
    _, refused = connected(own, "10.0.0.8:1")
    said = refusal(refused)
    assert (
        "user:anonymous has 1 connections at most" in said
        and 'edge.quotas."user:*".max_connections' in said.replace("\\c", ":")
    )
    first.lost()
    again, _ = connected(own)
    assert again.connected
    again.lost()
    assert not own.edge.quotas.accounts, "an account that nobody uses stays"


async def test_an_address_and_its_network_are_told_apart():
    own = bench(ip_each={"max_connections": 1})
    assert connected(own, "10.0.0.7:1")[0].connected and connected(own, "10.0.0.8:1")[0].connected
    refusal(connected(own, "10.0.0.7:2")[1])
    own = Bench(quotas={"ip:10.0.0.0/8": {"max_connections": 1}, "ip:10.0.0.9": {"max_connections": 2}})
    assert connected(own, "10.0.0.7:1")[0].connected
    refusal(connected(own, "10.1.0.8:1")[1])
    assert connected(own, "10.0.0.9:1")[0].connected and connected(own, "192.0.2.1:1")[0].connected
    own = bench(ip_each={"max_connections": 1})
    assert connected(own, "[2001:db8::1]:1")[0].connected
    refusal(connected(own, "[2001:db8::2]:1")[1])


def test_the_most_specific_entry_counts_alone():
    own = quotas(
        {"user:*": {"max_connections": 1}, "user:ada": {"max_transactions": 2}, "host:/": {"max_connections": 3}}
    )
    ada, bob = own.usage("ada", "", "::1"), own.usage("bob", "", "::1")
    assert ada is not None and bob is not None
    ada.charge(Resource.CONNECTIONS, 2)
    bob.charge(Resource.CONNECTIONS)
    with pytest.raises(RefusedError, match="host:/ has 3 connections"):
        ada.charge(Resource.CONNECTIONS)
    ada.charge(Resource.TRANSACTIONS, 2)
    with pytest.raises(RefusedError, match="user:ada has 2 transactions"):
        ada.charge(Resource.TRANSACTIONS)
    assert own.usage("eve", "shop", "10.0.0.1") is not None
    assert own.accounts["host:/"].used[Resource.CONNECTIONS] == 3


async def test_subscriptions_weigh_what_they_cost():
    own = bench(user_each={"max_subscriptions": 300})
    session, socket = connected(own)
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/a.#\n\n\0")
    assert session.usage.accounts[0].used[Resource.SUBSCRIPTIONS] == 256
    session.receive(b"SUBSCRIBE\nid:2\ndestination:/queue/a\n\n\0")
    assert session.usage.accounts[0].used[Resource.SUBSCRIPTIONS] == 257
    session.receive(b"UNSUBSCRIBE\nid:1\n\n\0")
    assert session.usage.accounts[0].used[Resource.SUBSCRIPTIONS] == 1
    session.receive(b"SUBSCRIBE\nid:3\ndestination:/topic/b.#\n\n\0SUBSCRIBE\nid:4\ndestination:/topic/c.#\n\n\0")
    answer(own, session)
    assert "user:anonymous has 300 subscriptions at most" in refusal(socket)
    session.lost()
    assert not own.edge.quotas.accounts


async def test_windows_get_what_is_left_of_unacknowledged_messages():
    own = bench(user_each={"max_unacknowledged": 1500})
    session, socket = connected(own)
    windows = []
    for id, more in enumerate(["", "prefetch-count:100\n", "consumer-window-size:-1\n"]):
        session.receive(f"SUBSCRIBE\nid:{id}\nack:client\n{more}destination:/queue/q{id}\n\n\0".encode())
        windows.append(own.port.last(Subscribe).credit_messages)
    assert windows == [1000, 100, 400]
    session.receive(b"SUBSCRIBE\nid:a\nack:auto\ndestination:/queue/auto\n\n\0")
    assert own.port.last(Subscribe).credit_messages == UNLIMITED
    session.receive(b"UNSUBSCRIBE\nid:1\n\n\0SUBSCRIBE\nid:3\nack:client\ndestination:/queue/q3\n\n\0")
    assert own.port.last(Subscribe).credit_messages == 100
    session.receive(b"SUBSCRIBE\nid:4\nack:client\ndestination:/queue/q4\n\n\0")
    answer(own, session)
    assert "prefetch-count" in refusal(socket)


async def test_transactions_count_while_they_are_open():
    own = bench(user_each={"max_transactions": 1})
    (one, _), (two, socket) = connected(own), connected(own)
    one.receive(b"BEGIN\ntransaction:a\n\n\0ABORT\ntransaction:a\n\n\0BEGIN\ntransaction:b\n\n\0")
    two.receive(b"BEGIN\ntransaction:c\n\n\0")
    assert "max_transactions" in refusal(socket)
    one.receive(b"COMMIT\ntransaction:b\n\n\0")
    three, _ = connected(own)
    three.receive(b"BEGIN\ntransaction:c\n\n\0")
    assert own.edge.quotas.accounts["user:anonymous"].used[Resource.TRANSACTIONS] == 1


async def test_other_limits_count_at_once_and_who_is_over_them_stays():
    own = Bench()
    session, _ = connected(own)
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0BEGIN\ntransaction:a\n\n\0")
    own.edge.limit({"user:*": {"max_connections": 0, "max_subscriptions": 1, "max_transactions": 1}})
    used = list(session.usage.accounts[0].used)
    assert used == [1, 0, 1, 0, 1]
    refusal(connected(own)[1])
    own.edge.limit({"user:anonymous": {"max_connections": 2}})
    assert session.usage.accounts[0].who == "user:anonymous" and session.usage.accounts[0].used == used
    assert connected(own)[0].connected
    own.edge.limit({})
    session.receive(b"ABORT\ntransaction:a\n\n\0")
    assert not own.edge.quotas.accounts and not session.closed


def test_without_word_of_other_edges_each_has_its_part():
    parts = []
    for rank in range(3):
        own = quotas({"user:*": {"max_connections": 7}})
        own.shared_by(3, rank)
        parts.append(own.part(7, 0))
    assert parts == [3, 2, 2]
    own.shared_by(20, 19)
    assert own.part(7, 0) == 1 and own.part(0, 0) == 0
    usage = own.usage("ada", "", "")
    assert usage is not None
    usage.charge(Resource.CONNECTIONS)
    with pytest.raises(RefusedError, match="1 of them at this one of 20 edges"):
        usage.charge(Resource.CONNECTIONS)


def test_what_other_edges_say_counts_here():
    own = quotas({"user:*": {"max_connections": 7}})
    own.shared_by(3, 0)
    own.heard({"user:ada": [6, 0, 0, 0, 0]})
    ada, bob = own.usage("ada", "", ""), own.usage("bob", "", "")
    assert ada is not None and bob is not None
    ada.charge(Resource.CONNECTIONS)
    bob.charge(Resource.CONNECTIONS, 7)
    with pytest.raises(RefusedError, match="user:ada has 7 connections at most \\(edge"):
        ada.charge(Resource.CONNECTIONS)
    own.heard(None)
    ada.charge(Resource.CONNECTIONS)


def test_metrics_tell_what_is_used_and_refused():
    own = quotas({"user:*": {"max_connections": 1}})
    usage = own.usage("ada", "", "")
    assert usage is not None
    usage.charge(Resource.CONNECTIONS)
    with pytest.raises(RefusedError):
        usage.charge(Resource.CONNECTIONS)
    own.replace({"user:*": {"max_connections": 1}, "user:bob": {"max_transactions": 4}})
    shown = {
        (family.name, labels["quota"], labels["limit"]): value
        for family in own.metrics()
        for labels, value in family.samples
    }  # type: ignore[misc]
    assert shown["stomp_quota_refused_total", "user:*", "max_connections"] == 1
    assert shown["stomp_quota_limit", "user:bob", "max_transactions"] == 4


async def test_who_is_refused_leaves_no_account_behind():
    """Anybody with a network of IPv6 made one of each of its addresses."""
    own = Bench(quotas={"ip:*": {"max_connections": 5}, "host:/": {"max_connections": 1}})
    connected(own)
    before = dict(own.edge.quotas.accounts)
    for n in range(50):
        refusal(connected(own, f"10.1.{n}.1:1")[1])
    assert own.edge.quotas.accounts == before


async def test_windows_from_before_a_limit_count():
    own = bench()
    session, _ = connected(own)
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\nprefetch-count:5000\n\n\0")
    own.edge.limit({"user:*": {"max_unacknowledged": 100}})
    for _ in range(5):
        await asyncio.sleep(0)
    assert session.usage.accounts[0].used[Resource.UNACKNOWLEDGED] == 5000
    with pytest.raises(RefusedError):
        session.usage.window("2", 10, 10)
    session.receive(b"UNSUBSCRIBE\nid:1\n\n\0")
    assert session.usage.accounts[0].used[Resource.UNACKNOWLEDGED] == 0


# ── what owners keep ───────────────────────────────────────────────────────────────────────────────


def asked(own: Bench, kind: type) -> Any:
    return [command for command in own.port.commands if isinstance(command, kind)][-1]


async def test_a_host_with_as_many_queues_as_it_may_have_uses_those_that_are_there():
    own = bench(host_each={"max_queues": 2})
    session, socket = connected(own)
    send = b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0"
    session.receive(send)
    assert asked(own, Publish).create
    list(own.edge.quotas.keeps({"host:/": (2, 0, 0, 0)}))
    session.receive(send)
    assert not asked(own, Publish).create and session.connected, "whether it is there only its owner knows"
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    assert not asked(own, Subscribe).create
    session.refused(asked(own, Publish).seq, Code.NOT_ALLOWED, "'a' does not exist and would have to be created")
    session.done(1)
    assert "host:/ has 2 queues at most, and there are 2" in refusal(socket)


@pytest.mark.parametrize(
    ("rights", "code", "said"),
    [
        ({"send": "*", "consume": "*"}, Code.NOT_ALLOWED, "lacks create_address"),
        (
            {"send": "*", "consume": "*", "create_address": "*", "create_durable_queue": "*"},
            Code.QUOTA,
            "host:/ has 1 queues at most",
        ),
    ],
    ids=["who lacks the right", "who has it"],
)
@pytest.mark.parametrize(
    "frame",
    [
        b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0",
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0",
    ],
    ids=["SEND", "SUBSCRIBE"],
)
async def test_the_right_is_asked_for_first_and_the_quota_then(
    frame: bytes, rights: dict[str, str], code: Code, said: str
) -> None:
    """Who may not make the queue at all was told of a quota, as if a larger one would help him."""
    own = Bench(quotas={"host:*": {"max_queues": 1}}, permissions={"#": rights})
    session, socket = connected(own)
    list(own.edge.quotas.keeps({"host:/": (1, 0, 0, 0)}))
    session.receive(frame)
    command = asked(own, Publish if frame.startswith(b"SEND") else Subscribe)
    assert not command.create
    session.refused(command.seq, Code.NOT_ALLOWED, "'a' does not exist and would have to be created")
    told = bytes(socket.sent).decode()
    assert f"error-code:{code.number}\n" in told and said in told


async def test_a_subscriber_has_a_queue_of_his_own_and_is_refused_at_once():
    own = bench(host_each={"max_queues": 2})
    session, socket = connected(own)
    list(own.edge.quotas.keeps({"host:/": (2, 0, 0, 0)}))
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0")
    assert "host:/ has 2 queues at most" in refusal(socket)
    again, _ = connected(own)
    list(own.edge.quotas.keeps({"host:/": (1, 0, 0, 0)}))
    again.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0")
    assert asked(own, Subscribe).create and again.connected


async def test_a_user_has_so_many_durable_subscriptions_and_comes_back_to_those():
    own = bench(user_each={"max_durable_subscriptions": 1})
    session, socket = connected(own)
    session.lost()
    assert own.edge.quotas.counted_users() == ["anonymous"] and own.edge.quotas.asks_owners, "he may come back"
    session, socket = connected(own)
    list(own.edge.quotas.keeps({"user:anonymous": (0, 1, 0, 0)}))
    session.has_client_id("anonymous")
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable-subscription-name:x\n\n\0")
    command = asked(own, Subscribe)
    assert command.durable and not command.create
    session.receive(b"SUBSCRIBE\nid:2\ndestination:/topic/a\n\n\0")
    assert asked(own, Subscribe).create, "one that goes with its connection is not durable"
    command = next(each for each in own.port.commands if isinstance(each, Subscribe) and each.durable)
    session.refused(command.seq, Code.NOT_ALLOWED, "…")
    assert session.closed or b"ERROR" in bytes(socket.sent)


async def test_a_host_that_keeps_as_many_bytes_as_it_may_is_sent_nothing_more():
    for kept, limit in ((100, 60), "max_bytes"), ((60, 60), "max_memory_bytes"):
        own = bench(host_each={limit: 60})
        session, socket = connected(own)
        list(own.edge.quotas.keeps({"host:/": (1, 0, 59, 59)}))
        session.receive(b"SEND\ndestination:/queue/a\n\nx\0")
        assert session.connected and asked(own, Publish)
        list(own.edge.quotas.keeps({"host:/": (1, 0, *kept)}))
        session.receive(b"SEND\ndestination:/queue/a\n\nx\0")
        said, held = refusal(socket), kept[limit != "max_bytes"]
        assert limit in said and f"there are {held}" in said
        found = {metric.name: metric.samples for metric in own.edge.quotas.metrics()}
        assert found["stomp_quota_kept"] == [({"quota": "host:*", "limit": limit}, float(held))]
        assert ({"quota": "host:*", "limit": limit}, 1.0) in found["stomp_quota_refused_total"]


SEND = b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0"
SUBSCRIBES = [b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0", b"SUBSCRIBE\nid:2\ndestination:/topic/a\n\n\0"]


@pytest.mark.parametrize("limit", ["max_queues", "max_bytes", "max_memory_bytes"])
async def test_commands_say_for_whom_queues_are_made_where_that_is_limited(limit: str):
    own = bench(user_anonymous={limit: 5})
    session, _ = connected(own)
    session.receive(SEND)
    assert asked(own, Publish).create == "anonymous" and asked(own, Publish).maker == "anonymous"
    for frame in SUBSCRIBES:
        session.receive(frame)
        assert asked(own, Subscribe).maker == "anonymous" and asked(own, Subscribe).create is True
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + SEND.replace(b"receipt:1", b"transaction:t"))
    assert [part.maker for part in session.transactions.get("t").parts] == ["anonymous"]
    own.edge.limit({})
    session.receive(SEND)
    assert asked(own, Publish).create is True, "live"


@pytest.mark.parametrize("table", [{"user_anonymous": {"max_connections": 9}}, {"host_each": {"max_queues": 9}}, {}])
async def test_nobody_is_named_where_nothing_of_it_is_limited(table: dict[str, Any]):
    own = bench(**table)
    session, _ = connected(own)
    session.receive(SEND + SUBSCRIBES[0])
    assert asked(own, Publish).create is True and asked(own, Subscribe).maker == ""


async def test_who_lacks_the_right_makes_nothing_for_himself_either():
    own = Bench(quotas={"user:*": {"max_queues": 9}}, permissions={"#": {"send": "*"}})
    session, _ = connected(own)
    session.receive(SEND)
    assert asked(own, Publish).create is False


async def test_a_user_with_as_many_queues_as_he_may_have_uses_those_that_are_there():
    own = bench(user_each={"max_queues": 2})
    session, socket = connected(own)
    list(own.edge.quotas.keeps({"user:anonymous": (2, 0, 0, 0), "host:/": (2, 0, 0, 0)}))
    session.receive(SEND)
    assert not asked(own, Publish).create and session.connected
    session.refused(asked(own, Publish).seq, Code.NOT_ALLOWED, "'a' does not exist and would have to be created")
    said = refusal(socket)
    assert 'user:anonymous has 2 queues at most, and there are 2 (edge.quotas."user:*".max_queues)' in said


async def test_a_user_whose_queues_are_full_sends_to_others_and_makes_none():
    own = bench(user_each={"max_bytes": 60})
    session, socket = connected(own)
    list(own.edge.quotas.keeps({"user:anonymous": (1, 0, 60, 0), "user:eve": (1, 0, 59, 0)}))
    assert own.edge.quotas.full_makers == {"anonymous"}
    session.receive(SEND)
    assert session.connected and asked(own, Publish).create is False, "the queue may be somebody else's"
    session.refused(asked(own, Publish).seq, Code.QUOTA, "'a' takes nothing: who has made it")
    text = "user:anonymous has 60 bytes in the queues he has made at most, and there are 60"
    assert f"'a' takes nothing: who has made it ({text}" in refusal(socket), "it may be his own"
    again, socket = connected(own)
    again.receive(SUBSCRIBES[1])
    assert "bytes in the queues he has made" in refusal(socket), "what it would get would be more of it"
    own.edge.limit({"user:*": {"max_bytes": 61}})
    list(own.edge.quotas.keeps({"user:anonymous": (1, 0, 60, 0)}))
    assert not own.edge.quotas.full_makers


async def test_who_sends_to_a_full_queue_of_somebody_else_hears_nothing_of_him():
    own = bench(user_each={"max_bytes": 60})
    session, socket = connected(own)
    list(own.edge.quotas.keeps({"user:eve": (1, 0, 60, 0), "user:anonymous": (1, 0, 59, 0)}))
    session.receive(SEND)
    session.refused(asked(own, Publish).seq, Code.QUOTA, "'a' takes nothing: who has made it")
    said = refusal(socket).partition("ERROR")[2]  # before it stands the session, whose number may hold a 60
    assert "'a' takes nothing: who has made it" in said and "eve" not in said and "60" not in said


def test_thousands_of_users_are_gone_through_in_steps():
    own = quotas({"user:*": {"max_bytes": 1}})
    steps = len(list(own.keeps({f"user:u{n}": (1, 0, n, 0) for n in range(2001)})))
    assert steps == 2001 // 8 and len(own.full_makers) == 2000
    (kept,) = [metric.samples for metric in own.metrics() if metric.name == "stomp_quota_kept"]
    assert kept == [({"quota": "user:*", "limit": "max_bytes"}, float(sum(range(2001))))]


def test_what_is_kept_counts_for_who_comes_later_and_for_other_limits():
    own = quotas({"host:*": {"max_queues": 5}})
    list(own.keeps({"host:shop": (5, 0, 0, 0), "host:/": (1, 0, 0, 0)}))
    usage = own.usage("ada", "shop", "::1")
    assert usage is not None and not usage.creates()
    own.replace({"host:*": {"max_queues": 6}})
    usage.belongs(own.of("ada", "shop", "::1"))
    assert usage.creates()
    own.replace({"host:shop": {"max_queues": 1}})
    usage.belongs(own.of("ada", "shop", "::1"))
    assert not usage.creates() and not own.usage("ada", "other", "::1")
