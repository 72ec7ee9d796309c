"""A session names nothing outside of its virtual host, whatever its frames say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.config.settings import EdgeSettings, EngineSettings, Settings
from broker.core.address import RECURRING, TEMPORARY, Routing
from broker.core.errors import Code, RefusedError
from broker.core.virtual_host import HOST, VirtualHost, host_of, split
from broker.edge.access.auth import Principal, TableAuthenticator
from broker.edge.edge import Edge
from broker.edge.rights.permissions import Permissions
from broker.engine.address.address_settings import Matcher, first_said

from .bench import Port
from .clocked import Socket, Time

DIALECTS = ("artemis", "rabbitmq", "activemq")
HOSTS = {"shop": {"names": "shop.example.com, /shop"}, "bank": {"max_connections": 1}}


class Asked:
    """Names that were claimed of the directory."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def claim(self, name: str, *rest: Any) -> None:
        self.names.append(name)
        rest[-1](None)

    def release(self, name: str, *rest: Any) -> None:
        self.names.append(name)

    def find(self, name: str, found: Any, done: Any) -> None:
        self.names.append(name)
        done(None)


class House:
    def __init__(self, **edge: Any) -> None:
        self.time: Any = Time()
        self.port = Port()
        whole = Settings(
            edge=EdgeSettings(virtual_hosts=HOSTS, **edge),
            acceptors={name: {"dialect": name} for name in DIALECTS} | {"till": {"virtual_host": "shop"}},
        )
        auth = TableAuthenticator({}, self.time, open_when_empty=True)
        self.edge = Edge(whole, self.port, self.time, self.time, auth, "1f")
        self.asked = Asked()
        self.edge.directory.names = self.edge.directory.client_ids = self.asked  # type: ignore[assignment]

    def session(self, acceptor: str, host: str = "", more: str = "") -> tuple[Any, Socket]:
        socket = Socket(acceptor)
        session = self.edge.open(socket)  # type: ignore[arg-type]
        lines = f"accept-version:1.2\n{f'host:{host}' if host else 'x:y'}\n{more}"
        session.receive(f"CONNECT\n{lines}\n\0".encode())
        return session, socket


def named(port: Port) -> list[str]:
    """Everything by name that owners were asked for."""
    found: list[str] = []
    waiting = list(port.commands)
    while waiting:
        command = waiting.pop()
        if (model := getattr(command, "model", None)) is not None:
            waiting.append(model)
        elif hasattr(command, "parts"):
            waiting += command.parts
        found += [name for field in ("address", "queue") if isinstance(name := getattr(command, field, None), str)]
    return found


ODD = st.sampled_from([
    "orders", "a.b", "a.*", "#", "*", ">", "a.>", "a.#.b", "::q", "a::q", "$host/bank.orders", "$host/bank", "$host/",
    "$host%2Fbank.orders", "$host/bank$exchange/x", "bank.orders", "a::$host/bank.q", "$host/bank.a::b", "$temp.x",
    "$temp.bank/" + "a" * 32, "$scheduled.$host/bank.orders", "$exchange/amq.direct/k", "$", "$.host/bank", "é", "DLQ",
    "activemq.management", "ActiveMQ.Advisory.Queue", "ActiveMQ.Scheduler.Management",
    "Consumer.a.VirtualTopic.$host/x", "Consumer.a.VirtualTopic.b", "VirtualTopicConsumers.a.$host/bank.x",
    "%24host%2Fbank.orders", "a" * 32,
    " $host/bank.x",
])  # fmt: skip
PREFIX = st.sampled_from([
    "", "/queue/", "/topic/", "/exchange/", "/exchange/amq.direct/", "/exchange/amq.topic/", "/exchange/amq.fanout/",
    "/amq/queue/", "/temp-queue/", "/temp-topic/", "/reply-queue/", "/remote-temp-queue/", "queue://", "/a,/queue/",
    "/queue/x,/topic/",
])  # fmt: skip
NAMES = st.builds(lambda prefix, odd, tail: prefix + odd + tail, PREFIX, ODD, st.sampled_from(["", ".x", ",/topic/b"]))
HEADERS = st.dictionaries(
    st.sampled_from([
        "reply-to", "durable-subscription-name", "activemq.subscriptionName", "x-queue-name", "destination-type",
        "subscription-type", "persistent", "durable", "selector", "browser", "transaction", "AMQ_SCHEDULED_PERIOD",
        "AMQ_SCHEDULED_DELAY", "x-dead-letter-exchange", "x-dead-letter-routing-key", "JMSXUserID", "id", "user-id",
    ]),
    st.one_of(NAMES, st.sampled_from(["true", "ANYCAST", "MULTICAST", "60000", "t", "$host/bank.s"])),
    max_size=3,
)  # fmt: skip
FRAMES = st.lists(
    st.tuples(st.sampled_from(["SEND", "SEND", "SUBSCRIBE", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN"]), NAMES, HEADERS),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(DIALECTS), st.sampled_from(["", "shop"]), st.sampled_from(["", "c", "$host/bank.c", "$"]), FRAMES
)
@example("artemis", "", "", [("SEND", "/queue/$host/bank.x", {}), ("SUBSCRIBE", "$host/bank.x", {})])
@example("artemis", "", "", [("SUBSCRIBE", "/topic/a::$host/bank.q", {})])
@example("artemis", "", "", [("SUBSCRIBE", "/topic/$host/bank.#", {})])
@example("rabbitmq", "", "", [("SUBSCRIBE", "/topic/a", {"x-queue-name": "$host/bank.q", "durable": "true"})])
@example("activemq", "shop", "", [("SEND", "/queue/a,/topic/b", {"AMQ_SCHEDULED_PERIOD": "60000"})])
@example("activemq", "", "", [("SEND", "/queue/a,/topic/$host/bank.b", {})])
@example("activemq", "", "", [("SEND", "/queue/x,/topic/a::$host/bank.q", {})])
@example("activemq", "", "", [("SUBSCRIBE", "/queue/x,/topic/a::$host/bank.q", {})])
@example("rabbitmq", "", "", [("SEND", "/exchange/amq.topic/$host%2Fbank.orders", {})])
@example("rabbitmq", "shop", "", [("SUBSCRIBE", "/topic/a", {"x-queue-name": "$host/bank.q", "durable": "true"})])
@example("artemis", "", "$host/bank.c", [("SUBSCRIBE", "/topic/a", {"durable-subscription-name": "s"})])
@example("activemq", "shop", "", [("SEND", "/queue/a,/topic/$host/bank.b", {"AMQ_SCHEDULED_PERIOD": "60000"})])
def test_no_frame_leads_out_of_its_host(dialect: str, host: str, client: str, frames: Any) -> None:
    house = House()
    session, socket = house.session(dialect, host, f"client-id:{client}\n" if client else "")
    for number, (command, destination, headers) in enumerate(frames):
        if session.closed or session.leaving:
            break
        headers = {"id": str(number), "destination": destination, "transaction": "t", **headers}
        if command != "BEGIN" and headers["transaction"] == "t":
            del headers["transaction"]
        lines = "".join([f"{name}:{value.replace(':', chr(92) + 'c')}\n" for name, value in headers.items()])
        session.receive(f"{command}\n{lines}\n{'x' if command == 'SEND' else ''}\0".encode())
    for name in [*named(house.port), *house.asked.names]:
        if name.startswith(TEMPORARY):
            assert ("/" in name, name.removeprefix(TEMPORARY).startswith("shop/")) == (bool(host), bool(host))
            continue
        assert split(name.removeprefix(RECURRING)).host == host, name
        assert host or HOST not in name.removeprefix(RECURRING)[: len(HOST)]
    assert b"$host/shop" not in socket.sent


def where(house: House, *came: Any) -> str:
    session, _ = house.session(*came)
    assert session.connected, came
    return str(session.host.name)


def test_the_port_decides_then_the_header_then_the_policy() -> None:
    house = House()
    found = [where(house, "artemis", host) for host in ("shop", "SHOP", "/shop", "shop.example.com", "other", "")]
    assert found == ["shop"] * 4 + ["", ""]
    assert where(house, "till", "bank") == where(house, "till") == "shop"
    for asked, host in (("shop.example.com", "shop"), ("other", "")):
        socket = Socket("artemis")
        socket.tls_name = asked
        session: Any = house.edge.open(socket)  # type: ignore[arg-type]
        session.receive(b"CONNECT\naccept-version:1.2\nhost:10.0.0.1\n\n\0")
        assert session.host.name == host
    strict = House(unknown_hosts="refuse")
    assert where(strict, "artemis", "") == "" and where(strict, "artemis", "shop") == "shop"
    _, socket = strict.session("rabbitmq", "other")
    assert b"Virtual host 'other' access denied" in socket.sent


def test_a_host_that_is_full_refuses_and_has_room_when_one_has_gone() -> None:
    house = House()
    first, _ = house.session("artemis", "bank")
    _, socket = house.session("rabbitmq", "bank")
    assert b"1 are open in 'bank'" in socket.sent
    house.session("artemis", "shop")
    first.lost()
    assert where(house, "rabbitmq", "bank") == "bank"


class Slow:
    """Logins that are checked until they may be."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.right = True

    def try_now(self, *_: Any) -> None:
        return None

    async def authenticate(self, login: str | None, *_: Any) -> Principal:
        await self.may.wait()
        if not self.right:
            raise RefusedError(Code.LOGIN_FAILED, "no")
        return Principal(login or "")

    def still_valid(self, *_: Any) -> bool:
        return True

    def knows(self, _: str) -> bool:
        return False

    def groups(self, _: str) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize("right", [True, False])
async def test_logins_side_by_side_are_not_more_than_a_host_takes_and_strangers_hear_nothing_of_it(right: bool) -> None:
    house = House()
    house.edge.auth = slow = Slow()  # type: ignore[assignment]
    more = "login:ada\npasscode:x\n"
    came = [house.session("artemis", "bank", more) for _ in range(3)]
    slow.may.set()
    await asyncio.sleep(0.01)
    assert [session.connected for session, _ in came] == [True, False, False]
    assert all(b"1 are open in 'bank'" in socket.sent for _, socket in came[1:])
    slow.right = right
    _, stranger = house.session("artemis", "bank", more)
    await asyncio.sleep(0.01)
    assert (b"1 are open" in stranger.sent) is right and b"ERROR" in stranger.sent


def test_what_rests_or_waits_for_an_answer_is_of_its_host() -> None:
    """Who may manage and read `#` of the default host saw, and could purge, what hosts send again and again."""
    theirs = ("$scheduled.$host/shop.orders", "$temp.shop/ff", "$host/shop.orders", "$host/shop$exchange/x")
    table = Permissions({"#": {"manage": "ops", "read": "ops"}, "$host/shop.#": {"manage": "clerks"}})
    ops, clerks = table.rights(("ops",)), table.rights(("clerks",))
    assert ops is not None and clerks is not None
    sees = first_said(table.table("manage", ("ops",)), ".")
    see = first_said(table.table("manage", ("clerks",)), ".")
    for name in theirs:
        assert ops.at(name) == frozenset() and not sees(name)
        assert clerks.at(name) == {"manage"} and see(name)
    for name in ("orders", "$scheduled.orders", "$temp.ff", "$exchange/x"):
        assert ops.at(name) == {"manage", "read"} and sees(name)
        assert clerks.at(name) == frozenset() and not see(name)


def test_names_go_in_and_come_out() -> None:
    shop = VirtualHost("shop")
    for name in ("a", "a.b", "$exchange/x.y", "#", ".x", "a::b"):
        assert split(shop.inside(name)) == ("shop", name)
        assert shop.told(f"'{shop.inside(name)}' is full") == f"'{name}' is full"
    assert shop.address(TEMPORARY + "ff") == "$temp.shop/ff"
    # A client-id, user or queue with such a name is the host's own: `$temp.shop/ff` may be one of the default host.
    assert shop.inside(TEMPORARY + "ff") == "$host/shop$temp.ff"
    assert shop.kept("DLQ") == shop.kept("$host/shop.DLQ") == "$host/shop.DLQ"
    assert VirtualHost().inside("$x") == "$x"
    assert [host_of(name) for name in ("$scheduled.$host/shop.a", "$host/shop$x", "a", "$x")] == [
        "shop",
        "shop",
        "",
        "",
    ]


def test_settings_of_a_host_are_its_own_and_its_letters_stay() -> None:
    tables = {
        "#": {"max_delivery_attempts": 3}, "$host/shop.#": {"ring_size": 5},
        "$host/shop.orders": {"expiry_address": "late", "dead_letter_address": "$host/shop.dead"},
    }  # fmt: skip
    match = Matcher(EngineSettings(addresses=tables))
    shop, bank, plain = match("$host/shop.orders"), match("$host/bank.orders"), match("orders")
    assert (shop.ring_size, shop.max_delivery_attempts, plain.max_delivery_attempts) == (5, 10, 3)
    assert (shop.dead_letter_address, shop.expiry_address) == ("$host/shop.dead", "$host/shop.late")
    assert (bank.dead_letter_address, bank.ring_size, bank.expiry_address) == ("$host/bank.DLQ", -1, "")
    assert plain.dead_letter_address == "DLQ"
    assert match.values("ring_size") == {-1, 5}
    assert match.values("dead_letter_address") == {"DLQ", "$host/shop.DLQ", "$host/shop.dead"}


def test_permissions_of_a_host_are_its_own() -> None:
    table = {"#": {"send": "ops"}, "$host/shop.#": {"send": "clerks"}, "$host/shop.a::$host/shop.q": {"consume": "ops"}}
    rights = Permissions(table).rights(("ops",))
    clerks = Permissions(table).rights(("clerks",))
    assert rights is not None and clerks is not None
    assert "send" in rights.at("a") and "send" not in rights.at("$host/shop.a") | rights.at("$host/bank.a")
    assert "send" in clerks.at("$host/shop.a") and "send" in clerks.at("$host/shop$exchange/x")
    assert "send" not in clerks.at("a") | clerks.at("#")
    assert "consume" in rights.at("$host/shop.a", "$host/shop.q")
    assert rights.at("#") and not rights.at("$host/bank.#")


@pytest.mark.parametrize("name", ["$host/bank.x", "/topic/$host/bank.x"])
def test_names_of_hosts_are_refused(name: str) -> None:
    house = House()
    session, _ = house.session("artemis", "shop")
    with pytest.raises(RefusedError):
        session.entrance.dialect.resolve(name, None, "")
    assert session.entrance.dialect.resolve("/topic/a::b", None, "")[:3] == (
        "$host/shop.a", Routing.MULTICAST, "$host/shop.b",
    )  # fmt: skip
