"""What sessions do differently by the acceptor they came in by."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest

from broker.config.settings import EdgeSettings, EngineSettings, Settings, WireSettings
from broker.core.address import Routing
from broker.core.commands import UNLIMITED, Publish, Subscribe
from broker.core.errors import Code
from broker.core.message import ESCAPED
from broker.core.reasons import Reason
from broker.edge.access.auth import TableAuthenticator
from broker.edge.edge import OVERFLOW, Edge
from broker.edge.session.session import Session
from broker.edge.transport.tcp import TcpChannel

from .bench import Port
from .clocked import Socket, Time
from .test_fair_reading import Transport


class House:
    """An edge with acceptors `a`, `b` … of these settings."""

    def __init__(self, *acceptors: dict[str, Any], **edge: Any) -> None:
        self.time = Time()
        self.port = Port()
        settings = Settings(
            edge=EdgeSettings(**edge), wire=WireSettings(large_body_bytes=1000),
            acceptors=dict(zip("abc", acceptors, strict=False)),
        )  # fmt: skip
        time: Any = self.time
        self.edge = Edge(settings, self.port, time, time, TableAuthenticator({}, time, open_when_empty=True), "1f")

    def open(self, name: str = "a") -> tuple[Session, Socket]:
        socket = Socket(name)
        return self.edge.open(socket), socket  # type: ignore[arg-type]

    def session(self, name: str = "a", headers: str = "accept-version:1.2\nhost:h\n") -> tuple[Session, Socket]:
        session, socket = self.open(name)
        session.receive(f"CONNECT\n{headers}\n\0".encode())
        assert socket.take().startswith(b"CONNECTED")
        return session, socket

    def sent(self) -> list[Publish]:
        return [command for command in self.port.commands if type(command) is Publish]


def send(session: Session, text: str) -> None:
    session.receive(text.replace("|", "\0").encode())


def messages(publish: Publish) -> list[bytes]:
    return [publish.run.lines + record for record in publish.run.records]


def lines_of(message: bytes) -> list[bytes]:
    """Header lines in no particular order, and the rest."""
    lines, _, rest = message.partition(b"\n\n")
    return [*sorted(lines.split(b"\n")), rest]


# Prefixes


def test_each_acceptor_has_its_prefixes_and_the_sender_s_destination_is_relayed() -> None:
    house = House(
        {"anycast_prefix": "q/", "multicast_prefix": "q/news/"}, {"anycast_prefix": "", "multicast_prefix": ""}
    )
    for name in ("a", "b", "tcp"):
        session, _ = house.session(name)
        for destination in ("q/x", "q/news/x", "/queue/x") if name != "tcp" else ("q/x", "/queue/x"):
            for _ in range(3):  # the memo of blocks comes in with the second
                send(session, f"SEND\ndestination:{destination}\ncontent-length:1\n\nx|")
    found = [(p.address, p.routing, lines_of(messages(p)[0])[1]) for p in house.sent()]
    plain, anycast, multicast = Routing.UNSET, Routing.ANYCAST, Routing.MULTICAST
    assert list(dict.fromkeys(found)) == [
        ("x", anycast, b"destination:q/x"), ("x", multicast, b"destination:q/news/x"),
        ("/queue/x", plain, b"destination:/queue/x"),
        ("q/x", plain, b"destination:q/x"), ("q/news/x", plain, b"destination:q/news/x"),
        ("x", anycast, b"destination:/queue/x"),
    ]  # fmt: skip
    assert len(found) == 24


def test_subscriptions_know_the_prefixes_too() -> None:
    house = House({"anycast_prefix": "jms.queue.", "multicast_prefix": "jms.topic."})
    session, socket = house.session()
    send(session, "SUBSCRIBE\nid:1\ndestination:jms.topic.a.b\n\n|")
    command = house.port.last(Subscribe)
    assert (command.address, command.routing) == ("a.b", Routing.MULTICAST)
    send(session, "SUBSCRIBE\nid:2\ndestination:jms.queue.\n\n|")
    assert b"error-code:%d\n" % Code.BAD_DESTINATION.number in socket.sent


def test_acceptors_with_the_same_prefixes_share_what_is_remembered_of_blocks() -> None:
    house = House({"anycast_prefix": "/queue/, "}, {"anycast_prefix": "q/"})
    of = house.edge.entrances
    assert of["a"].memo is of["tcp"].memo is of["ws"].memo is not of["b"].memo
    assert of["a"].routes is house.edge.routes is not of["b"].routes


# How many


def test_connections_beyond_those_allowed_are_told_and_others_are_not() -> None:
    house = House({"connections_allowed": 2}, {})
    first, second = house.session(), house.session()
    _, third = house.open()
    assert b"ERROR" in third.sent and b"2 are open (acceptors.a.connections_allowed)" in third.sent
    assert third.closed is Reason.CONNECTION_LIMIT
    house.session("b")
    for _ in range(OVERFLOW):
        _, last = house.open()
    assert (last.sent, last.closed) == (b"", "aborted")
    for session in list(house.edge.sessions.values()):
        if session is not first[0]:
            session.lost()
    house.session()
    assert second[0].closed


def test_a_connection_beyond_its_rate_is_read_later_and_no_other() -> None:
    house = House({"max_producer_rate": 10}, {})
    session, socket = house.session()
    _, other = house.session()
    send(session, "SEND\ndestination:/queue/a\n\nx|" * 25)
    passed = house.sent()
    assert (socket.reading, other.reading, len(passed[0].run.records)) == (False, True, 5)
    house.time.run(1.9)
    assert not socket.reading
    house.time.run(0.2)
    assert socket.reading
    session.lost()
    assert house.edge.rates is not None and house.edge.rates._paces == {}


# Clocks


@pytest.mark.parametrize(
    ("acceptor", "headers", "ttl"),
    [
        ({}, "accept-version:1.2\nhost:h\n", 60.0),
        ({}, "accept-version:1.1\nhost:h\nheart-beat:0,0\n", 60.0),
        ({}, "", 60.0),
        ({}, "accept-version:1.2\nhost:h\nheart-beat:3000,0\n", 6.0),
        ({"connection_ttl_ms": 1500}, "", 1.5),
        ({"default_heartbeat": "2000,0"}, "", 4.0),
        ({"default_heartbeat": "2000,0"}, "accept-version:1.2\nhost:h\nheart-beat:0,0\n", 60.0),
        # 1.0 knows no heart-beats: a header of that name says nothing.
        ({}, "heart-beat:1000,0\n", 60.0),
    ],
)
def test_a_silent_client_ends_within_a_second_of_its_ttl_and_not_before(
    acceptor: dict[str, Any], headers: str, ttl: float
) -> None:
    house = House(acceptor)
    session, socket = house.session(headers=headers)
    house.time.run(ttl - 0.5)
    session.receive(b"\n")
    house.time.run(ttl - 0.01)
    assert socket.closed is None
    house.time.run(0.5)
    assert socket.closed is Reason.HEARTBEAT_MISSED
    text = socket.sent.decode()
    assert f"Did not receive data from 127.0.0.1:1 within the {ttl * 1000:.0f}ms connection TTL" in text
    age = re.search(r"the last byte came ([\d.]+) s ago", text)
    assert age is not None and ttl <= float(age[1]) <= ttl + 0.2


def test_without_a_ttl_nobody_is_closed() -> None:
    house = House({"connection_ttl_ms": -1})
    for name in ("a", "tcp"):
        _, socket = house.session(name)
        house.time.run(1_000_000)
        assert socket.closed is None


def test_a_piece_of_a_frame_and_a_websocket_ping_count() -> None:
    house = House({"connection_ttl_ms": 1000})
    session, socket = house.session()
    for piece in (b"S", b"END", b"\n"):
        house.time.run(0.9)
        session.receive(piece)
    house.time.run(0.9)
    session.heard()
    house.time.run(0.9)
    assert socket.closed is None


def test_the_clock_stands_still_while_it_is_us_who_do_not_read() -> None:
    house = House({"connection_ttl_ms": 1000})
    session, socket = house.session()
    house.time.run(0.9)
    session.inbound.pause_reading("test")
    house.time.run(30)
    assert socket.closed is None
    session.inbound.resume_reading("test")
    house.time.run(0.99)
    assert socket.closed is None
    house.time.run(0.3)
    assert socket.closed is Reason.HEARTBEAT_MISSED


def test_the_clock_stands_still_while_what_came_waits_for_its_turn() -> None:
    """A heart-beat behind the reads of all others of its user."""
    house = House({"connection_ttl_ms": 1000})
    edge, rounds, transport = house.edge, house.edge.rounds, Transport()
    rounds._schedule = lambda callback: None  # its turn comes when the test wants it
    transport.write = lambda data: None
    channel = TcpChannel(edge, Mock(), "a", edge.entrances["a"].settings)  # type: ignore[arg-type]
    channel.connection_made(transport)
    channel.data_received(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    rounds.until, rounds._counted = 0.0, True
    house.time.run(0.9)
    channel.data_received(b"\n")
    assert channel.waits
    house.time.run(5)
    assert not channel.closing
    rounds._round()
    assert not channel.waits
    house.time.run(0.9)
    assert not channel.closing
    house.time.run(0.3)
    assert channel.closing


def test_a_stall_of_the_process_is_not_the_client_s_silence() -> None:
    """Timers may come before the reads that would have saved it."""
    house = House({"connection_ttl_ms": 1000})
    session, socket = house.session()
    house.time.now += 50
    house.time.run(0.05)
    session.receive(b"\n")
    house.time.run(0.9)
    assert socket.closed is None


@pytest.mark.parametrize(("seconds", "ends"), [(3.0, True), (0.0, False)])
def test_the_handshake_has_its_own_time(seconds: float, ends: bool) -> None:
    house = House({"handshake_timeout_s": seconds})
    _, socket = house.open()
    house.time.run(2.9)
    assert socket.closed is None
    house.time.run(1000)
    assert (socket.closed is Reason.LOGIN_TIMEOUT) is ends


@pytest.mark.parametrize(
    ("acceptor", "headers", "has", "lacks"),
    [
        ({}, "accept-version:1.2\nheart-beat:1000,0\n", [b"server:", b"heart-beat:0,1000\n"], []),
        ({"server_header": False}, "accept-version:1.2\nheart-beat:0,0\n", [b"heart-beat:0,30000\n"], [b"server:"]),
        ({}, "accept-version:1.1\n", [b"server:"], [b"heart-beat"]),
        ({"default_heartbeat": "5000,0"}, "", [b"session:"], [b"server:", b"heart-beat", b"version"]),
        (
            {"full_connected_v10": True, "server_name": "RabbitMQ/4.1.0"},
            "",
            [b"version:1.0\n", b"server:RabbitMQ/4.1.0\n", b"heart-beat:0,0\n"],
            [b"stampede"],
        ),
        # Their clients look for the name before they make a subscription durable (stomp-php), and read 1.0's version.
        ({"dialect": "rabbitmq"}, "", [b"version:1.0\n", b"server:RabbitMQ/", b" stampede/", b"heart-beat:"], []),
        ({"dialect": "activemq"}, "", [b"version:1.0\n", b"server:ActiveMQ/", b" stampede/", b"heart-beat:"], []),
        ({"dialect": "rabbitmq", "server_name": "x/1"}, "accept-version:1.2\n", [b"server:x/1\n"], [b"RabbitMQ"]),
        ({"dialect": "activemq", "server_header": False}, "accept-version:1.2\n", [], [b"server:"]),
    ],
)
def test_what_connected_says(acceptor: dict[str, Any], headers: str, has: list[bytes], lacks: list[bytes]) -> None:
    session, socket = House(acceptor).open()
    session.receive(f"CONNECT\n{headers}\n\0".encode())
    assert [text for text in has if text not in socket.sent] == []
    assert [text for text in lacks if text in socket.sent] == []


# Messages


NUMBER = re.compile(rb"^amqMessageId:STOMP(\d+)\n", re.MULTILINE)


def test_messages_get_ids_of_their_own() -> None:
    house = House({"enable_message_id": True})
    session, _ = house.session()
    send(session, "SEND\ndestination:/queue/a\ncontent-length:1\nfoo:1\n\nx|" * 5)
    send(
        session, "SEND\ndestination:/queue/a\nreceipt:1\n\ny|SEND\ndestination:/queue/a\ncontent-length:1\nfoo:2\n\nx|"
    )
    send(session, "SEND\ndestination:/queue/a\ncontent-length:2000\n\n" + "x" * 1000)
    large = session.inbound.large
    found = [message for publish in house.sent() for message in messages(publish)]
    assert len(found) == 7
    ids = [int(id) for message in [*found, large.head.lines] for id in NUMBER.findall(message)]  # type: ignore[union-attr]
    assert len(set(ids)) == 8 and all(0 < id < 1 << 63 for id in ids)
    for message in found:
        rest = NUMBER.sub(b"", message)
        assert b"\ndestination:/queue/a\n" in b"\n" + rest and rest.count(b"\n\n") == 1 and rest.endswith(b"\0")
    for publish in house.sent():
        assert publish.run.nbytes == sum(map(len, messages(publish)))


def test_ports_of_the_edge_may_give_ids_as_well() -> None:
    """One identity of a message, whoever gets it and however often: message-id names a delivery."""
    house = House(enable_message_id=True)
    session, _ = house.session("tcp")
    send(session, "SEND\ndestination:/queue/a\n\nx|")
    [message] = messages(house.sent()[0])
    assert NUMBER.search(message)


def test_the_login_is_told_and_cannot_be_forged() -> None:
    house = House({"validated_user": True})
    session, _ = house.session()
    send(session, "SEND\ndestination:/queue/a\nJMSXUserID:root\ncontent-length:11\n\nJMSXUserID:|" * 3)
    for number in range(4):
        body = "\n\nJMSXUserID:b"
        send(session, f"SEND\ndestination:/queue/a\nJMSXUserID:x{number}\nn:{number}\n\n{body}|")
    found = [message for publish in house.sent() for message in messages(publish)]
    assert len(found) == 7
    for message in found:
        head, _, body = message.partition(b"\n\n")
        assert [line for line in head.split(b"\n") if line.startswith(b"JMSXUserID:")] == [b"JMSXUserID:anonymous"]
        assert body.endswith((b"JMSXUserID:\0", b"\n\nJMSXUserID:b\0"))
    for publish in house.sent():
        assert publish.run.nbytes == sum(map(len, messages(publish)))
        assert not publish.run.flags & ESCAPED


@pytest.mark.parametrize("header", ["JMSXGroupID", "_AMQ_DUPL_ID"])
@pytest.mark.parametrize("marks", [{"validated_user": True}, {"enable_message_id": True}])
def test_messages_that_belong_together_still_go_to_one_part_of_a_split_address(header: str, marks: Any) -> None:
    house = House(marks)
    house.edge.configure(EngineSettings(addresses={"a": {"partitions": 4}}))
    session, _ = house.session()
    for number in range(40):
        send(session, f"SEND\ndestination:/queue/a\nn:{number}\n{header}:g{number % 8}\n\nx|" * 2)
    slots: dict[bytes, set[int]] = {}
    for publish in house.sent():
        for message in messages(publish):
            group = re.findall(rb"^%b:(.*)$" % header.encode(), message, re.MULTILINE)[0]
            slots.setdefault(group, set()).add(publish.slot)
    assert len(slots) == 8 and all(len(found) == 1 for found in slots.values())


def test_other_acceptors_messages_stay_as_they_are() -> None:
    house = House({"validated_user": True, "enable_message_id": True}, {})
    one, _ = house.session("a")
    two, _ = house.session("b")
    for session in (one, two, one, two):
        send(session, "SEND\ndestination:/queue/a\ncontent-length:1\n\nx|" * 2)
    plain = [message for publish in house.sent()[1::2] for message in messages(publish)]
    assert [*map(lines_of, plain)] == [[b"content-length:1", b"destination:/queue/a", b"x\0"]] * 4


# Subscriptions


@pytest.mark.parametrize(
    ("acceptor", "headers", "window"),
    [
        ({}, "", (1000, 10240)),
        ({"consumer_window_bytes": 500}, "", (1000, 500)),
        ({"consumer_window_bytes": -1}, "", (UNLIMITED, UNLIMITED)),
        ({"consumer_window_bytes": -2}, "", (1000, UNLIMITED)),
        ({"consumer_window_bytes": -1}, "prefetch-count:3\n", (3, UNLIMITED)),
        ({"consumer_window_bytes": 500}, "consumer-window-size:77\n", (UNLIMITED, 77)),
        ({}, "activemq.prefetchSize:77\n", (UNLIMITED, 77)),
        ({"prefetch_unit": "messages"}, "activemq.prefetchSize:77\n", (77, UNLIMITED)),
        ({"prefetch_unit": "messages"}, "activemq.prefetchSize:0\n", (1, UNLIMITED)),
        ({"prefetch_unit": "messages"}, "activemq.prefetchSize:-1\n", (UNLIMITED, UNLIMITED)),
        ({"prefetch_unit": "messages"}, "activemq.prefetchSize:7\nprefetch-count:3\n", (3, UNLIMITED)),
        ({"prefetch_unit": "messages"}, "activemq.prefetchSize:7\nconsumer-window-size:99\n", (UNLIMITED, 99)),
    ],
)
def test_windows(acceptor: dict[str, Any], headers: str, window: tuple[int, int]) -> None:
    house = House(acceptor)
    session, _ = house.session()
    send(session, f"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n{headers}\n|")
    command = house.port.last(Subscribe)
    assert (command.credit_messages, command.credit_bytes) == window


@pytest.mark.parametrize(
    ("coercion", "selector"), [("auto", "age > 18"), ("strict", "no_convert_string_expressions:age > 18")]
)
def test_selectors_are_read_as_the_acceptor_says(coercion: str, selector: str) -> None:
    house = House({"selector_coercion": coercion})
    session, _ = house.session()
    send(session, "SUBSCRIBE\nid:1\ndestination:/queue/a\nselector:age > 18\n\n|")
    assert house.port.last(Subscribe).selector == selector


def test_large_bodies_begin_where_the_acceptor_says() -> None:
    house = House({"large_body_bytes": 5000}, {})
    for name, large in (("a", False), ("b", True)):
        session, _ = house.session(name)
        send(session, "SEND\ndestination:/queue/a\ncontent-length:2000\n\n" + "x" * 2000)
        assert (session.inbound.large is not None) is large


# Heart-beats


def test_a_beat_leaves_at_half_of_the_interval_and_never_later_than_three_quarters() -> None:
    """What leaves meanwhile counts, wherever it falls; nothing is sent three times as often as was agreed."""
    house = House({})
    session, socket = house.open()
    session.receive(b"CONNECT\naccept-version:1.2\nheart-beat:0,1000\n\n\0")
    start = socket.take() and house.time.now
    left: list[float] = []
    for step in range(2000):
        house.time.run(0.01)
        if 0 < step % 400 < 200 and step % 37 == 0:
            session.outbound.write(b"MESSAGE\n\n\0")
            session.outbound.flush()
        if socket.take():
            left.append(house.time.now - start)
    gaps = [after - before for before, after in pairwise(left)]
    assert max(gaps) <= 0.77
    idle = [gap for gap, at in zip(gaps, left, strict=False) if 2.5 < at % 4 < 3.4]
    assert min(idle) >= 0.49
