"""Sessions against an owner and a socket turned by hand: ends, large bodies, faults, bounds."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.settings import EdgeSettings, Settings, WireSettings
from broker.core.address import Outcome
from broker.core.commands import Barrier, Disconnect, Publish, Subscribe
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import BLOB, Blob, Run
from broker.core.reasons import Reason
from broker.edge.auth import TableAuthenticator
from broker.edge.channel import Channel, next_connection_id
from broker.edge.edge import OVERFLOW, Edge
from broker.edge.fair_reading import FIRST, LEAST, PORTION_S, ROUND_S, Rounds
from broker.edge.session import BURST, Session
from broker.edge.timers import TimerWheel
from broker.link.owner_port import Away
from broker.seams.clock import SystemClock


class Writer:
    """A large body on its way in: finished when the test says so."""

    pending = 0

    def __init__(self) -> None:
        self.data = b""
        self.finished: Callable[[Blob | None, str], None] | None = None

    def write(self, data: bytes) -> None:
        self.data += data

    def finish(self, sync: bool, done: Callable[[Blob | None, str], None]) -> None:
        self.finished = done

    def abort(self) -> None:
        self.finished = None


class Reader:
    """A large body on its way out, one piece per call of `turn`."""

    def __init__(self, length: int) -> None:
        self.left = length
        self.waiting: tuple[int, Callable[[bytes | None, str], None]] | None = None
        self.closed = False

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None:
        self.waiting = (n, done)

    def close(self) -> None:
        self.closed = True

    def turn(self) -> None:
        assert self.waiting is not None
        (n, done), self.waiting = self.waiting, None
        self.left -= n
        done(b"b" * n, "")


class Port:
    """Keeps what sessions ask for; answers when the test says so."""

    shares_wildcards = True

    def __init__(self) -> None:
        self.commands: list[Any] = []
        self.held: Callable[[int, int], Sequence[int]] = lambda slot, consumer: ()
        self.readers: list[Reader] = []
        self.whole: list[tuple[int, int, Outcome]] = []
        self.writers: list[Writer] = []

    def attach(self, listener: object) -> None: ...

    def submit(self, commands: list[Any]) -> None:
        self.commands += commands

    def write_body(self, slot: int, on_drain: Callable[[], None]) -> Writer:
        self.writers.append(Writer())
        return self.writers[-1]

    def read_body(self, slot: int, blob: Blob, consumer: int = 0, message: int = 0) -> Reader:
        self.readers.append(Reader(blob.length))
        return self.readers[-1]

    def arrived(self, consumer: int, message: int, outcome: Outcome = Outcome.ACK) -> None:
        self.whole.append((consumer, message, outcome))

    def last(self, kind: type) -> Any:
        return [command for command in self.commands if type(command) is kind][-1]


class Wire:
    """A Channel that remembers."""

    framed = False
    texts = False
    tls_subject = None
    reason: Reason | None = None
    transport_name = "tcp"
    peer = "127.0.0.1:1"

    def __init__(self) -> None:
        self.id = next_connection_id()
        self.sent = b""
        self.closed: Reason | str | None = None
        self.waiting = 0

    def write(self, data: bytes) -> None:
        assert self.closed is None
        self.sent += data

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        self.write(data)

    def held(self) -> int:
        return self.buffered()

    def buffered(self) -> int:
        return self.waiting

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def close(self, reason: Reason) -> None:
        self.closed = reason

    def abort(self) -> None:
        self.closed = "aborted"

    def take(self) -> bytes:
        sent, self.sent = self.sent, b""
        return sent


class Bench:
    """One edge, and sessions that are connected."""

    def __init__(self, acceptors: dict[str, Any] | None = None, **edge: Any) -> None:
        self.port = Port()
        settings = Settings(
            edge=EdgeSettings(**edge), wire=WireSettings(large_body_bytes=1000), acceptors=acceptors or {}
        )
        beats = TimerWheel(asyncio.get_running_loop())
        self.edge = Edge(
            settings,
            self.port,
            SystemClock(),
            beats,
            TableAuthenticator({}, SystemClock(), open_when_empty=True),
            "boot",
        )

    def session(self, port: str = "tcp") -> tuple[Session, Wire]:
        wire = Wire()
        wire.transport_name = port
        channel: Channel = wire  # type: ignore[assignment]
        session = self.edge.open(channel)
        session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert wire.take().startswith(b"CONNECTED")
        return session, wire

    def subscribed(self, session: Session, id: str = "1") -> int:
        session.receive(b"SUBSCRIBE\nid:%b\ndestination:/queue/q%b\n\n\0" % (id.encode(), id.encode()))
        consumer: int = self.port.last(Subscribe).consumer
        return consumer

    def deliver(self, consumer: int, *bodies: bytes, cost: int = 0) -> None:
        run = Run(range(1, len(bodies) + 1), b"\n", [body + b"\0" for body in bodies], sum(map(len, bodies)))
        self.edge.on_effects([Deliver(consumer, run, cost or run.nbytes)])

    def deliver_large(self, consumer: int, length: int) -> Reader:
        run = Run(range(1, 2), b"", [b"content-length:%d\n\n" % length], length, BLOB, blob=Blob(1, length))
        self.edge.on_effects([Deliver(consumer, run, length)])
        return self.port.readers[-1]


async def test_a_half_close_behind_a_large_send_still_ends_the_connection() -> None:
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/q\nreceipt:r\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0")
    session.eof()
    assert wire.closed is None
    finished = bench.port.writers[0].finished
    assert finished is not None
    finished(Blob(1, 2000), "")
    publish = bench.port.last(Publish)
    bench.edge.on_effects([Done(session.id, publish.seq)])
    assert b"receipt-id:r" in wire.sent
    assert wire.closed is Reason.CLIENT_GONE


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("no space left", 1601),
        (Away("nothing heard for 500 ms"), 1607),
        (Away("no owner has served it for 30 s", Code.OWNER_UNAVAILABLE), 1605),
    ],
)
async def test_a_large_send_that_fails_says_whether_it_was_the_disk_or_the_owner(why: str, code: int) -> None:
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/q\nreceipt:r\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0")
    finished = bench.port.writers[0].finished
    assert finished is not None
    finished(None, why)
    assert b"error-code:%d\n" % code in wire.sent and b"receipt-id:r\n" in wire.sent
    assert why.encode() in wire.sent


async def test_a_large_delivery_that_its_owner_left_is_no_fault_of_the_edge() -> None:
    for why, reason in (("cannot read", Reason.INTERNAL), (Away("nothing heard for 500 ms"), Reason.OWNER_STOPPED)):
        bench = Bench()
        session, wire = bench.session()
        reader = bench.deliver_large(bench.subscribed(session), 600_000)
        reader.turn()
        assert reader.waiting is not None
        reader.waiting[1](None, why)
        assert wire.closed == "aborted"
        assert bench.edge.counters.closed == {reason: 1}


@pytest.mark.parametrize("reason", Reason)
async def test_the_owner_hears_whether_a_client_has_failed_or_gone_in_order(reason: Reason) -> None:
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    session.abort(reason)
    calm = {Reason.CLIENT_DISCONNECT, Reason.SHUTDOWN, Reason.OWNER_STOPPED, Reason.DISK_FULL}
    assert bench.port.last(Disconnect).calm == (reason in calm)


@pytest.mark.parametrize(("code", "calm"), [(Code.DISK_FULL, True), (Code.ADDRESS_FULL, False)])
async def test_a_full_disk_is_no_failure_of_who_holds_messages(code: Code, calm: bool) -> None:
    """53 messages of a real cluster became dead letters in 10 s: who consumes them sends what it makes of them."""
    bench = Bench()
    session, wire = bench.session()
    bench.subscribed(session)
    session.receive(b"SEND\ndestination:/queue/other\nreceipt:r\n\nx\0")
    bench.edge.on_effects([Refused(session.id, bench.port.last(Publish).seq, code, "retry later")])
    assert b"error-code:%d" % code.number in wire.take() and wire.closed is code.reason
    assert bench.port.last(Disconnect).calm is calm


@pytest.mark.parametrize("receipt", [b"", b"receipt:r\n"])
async def test_disconnect_is_going_in_order_and_the_end_of_the_stream_is_not(receipt: bytes) -> None:
    bench = Bench()
    for frame, calm in ((b"DISCONNECT\n%b\n\0" % receipt, True), (b"", False)):
        session, wire = bench.session()
        bench.subscribed(session)
        bench.port.commands.clear()
        if frame:
            session.receive(frame)
        else:
            session.eof()
        for command in list(bench.port.commands):
            if type(command) is Barrier:
                bench.edge.on_effects([Done(session.id, command.seq)])
        assert wire.closed is not None
        assert {command.calm for command in bench.port.commands if type(command) is Disconnect} == {calm}


async def test_disconnect_is_answered_behind_the_large_body_that_is_under_way() -> None:
    bench = Bench()
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 600_000)
    session.receive(b"DISCONNECT\nreceipt:bye\n\n\0")
    assert [whole[0] for whole in bench.port.whole] == [bench.port.last(Subscribe).consumer], "it takes it along"
    bench.edge.on_effects([Done(session.id, command.seq) for command in bench.port.commands if hasattr(command, "seq")])
    while not reader.closed:
        assert wire.closed is None
        reader.turn()
    head, _, rest = wire.sent.partition(b"\n\n")
    assert b"content-length:600000" in head
    assert rest == b"b" * 600_000 + b"\0RECEIPT\nreceipt-id:bye\n\n\0"
    assert wire.closed is Reason.CLIENT_DISCONNECT


async def test_an_error_comes_behind_the_large_body_and_nothing_behind_the_error() -> None:
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    first = bench.deliver_large(consumer, 2000)
    second = bench.deliver_large(consumer, 3000)
    session.receive(b"NONSENSE\n\n\0")
    third = bench.deliver_large(consumer, 4000)
    assert third.closed, "its file is not kept open"
    first.turn()
    second.turn()
    assert wire.sent.count(b"MESSAGE\n") == 2
    assert wire.sent.rindex(b"ERROR\n") > wire.sent.rindex(b"MESSAGE\n")
    assert wire.closed is Reason.PROTOCOL_ERROR


async def test_small_messages_behind_a_large_body_give_no_room_back_before_they_leave() -> None:
    """Else a slow download lets everything of the other queues gather in memory."""
    bench = Bench(consumer_room_bytes=1000)
    session, wire = bench.session()
    slow, other = bench.subscribed(session), bench.subscribed(session, "2")
    reader = bench.deliver_large(slow, 2000)
    bench.port.commands.clear()
    bench.deliver(other, b"small", cost=900)
    assert bench.port.commands == []
    reader.turn()
    assert b"small" in wire.sent
    assert sorted((g.consumer, g.nbytes) for g in bench.port.commands) == [(slow, 2000), (other, 900)]


async def test_what_waits_behind_a_large_body_is_bounded() -> None:
    bench = Bench(max_outbox_bytes=10_000)
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 2000)
    for _ in range(200):
        session.receive(b"SEND\ndestination:/queue/q\nreceipt:%b\n\n\0" % (b"r" * 100))
        bench.edge.on_effects([Done(session.id, bench.port.last(Publish).seq)])
        if wire.closed:
            break
    assert wire.closed == "aborted"
    assert reader.closed
    assert bench.edge.counters.closed == {Reason.SLOW_CONSUMER: 1}


async def test_one_turn_cannot_fill_the_memory_of_a_client_that_does_not_read() -> None:
    bench = Bench(max_outbox_bytes=3 << 20)
    session, wire = bench.session()
    consumers = [bench.subscribed(session, str(n)) for n in range(8)]
    session.pause_writing()
    run = Run(range(1, 2), b"\n", [b"x" * 500_000 + b"\0"], 500_002)
    wire.waiting = 4 << 20
    bench.edge.on_effects([Deliver(consumer, run, run.nbytes) for consumer in consumers])
    assert wire.closed == "aborted"
    assert len(wire.sent) < 3 << 20


async def test_the_rooms_of_many_subscriptions_together_fit_the_outbox() -> None:
    bench = Bench(max_outbox_bytes=1 << 26, consumer_room_bytes=1 << 20)
    session, _ = bench.session()
    for n in range(2000):
        bench.subscribed(session, str(n))
    rooms = [c.room for c in bench.port.commands if type(c) is Subscribe]
    assert rooms[0] == 1 << 20
    assert min(rooms) > 0
    assert sum(rooms) < 1 << 26


@pytest.mark.parametrize("where", ["deliver", "done", "write"])
async def test_a_mistake_of_ours_ends_one_connection_and_not_the_owner(where: str, caplog: Any) -> None:
    bench = Bench()
    (bad, bad_wire), (good, good_wire) = bench.session(), bench.session()
    consumers = bench.subscribed(bad), bench.subscribed(good)

    seqs = [session.answers.ask([b"r"]) for session in (bad, good)]
    broken: Any = None
    if where == "deliver":
        bench.edge.consumers[consumers[0]]._plain = broken
    elif where == "done":
        bad.answers = broken
    else:
        bad_wire.write = broken  # type: ignore[method-assign]
    run = Run(range(1, 2), b"\n", [b"body\0"], 6)
    effects: list[Any] = []
    for session, consumer, seq in zip((bad, good), consumers, seqs, strict=True):
        effects += [Deliver(consumer, run, 6), Done(session.id, seq)]
    bench.edge.on_effects(effects)
    assert bad_wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.INTERNAL: 1}
    assert "internal error" in caplog.text and "Traceback" in caplog.text
    assert good_wire.sent.count(b"body") == 1 and b"RECEIPT" in good_wire.sent
    assert good_wire.closed is None


async def test_a_mistake_while_reading_ends_the_connection_by_name(caplog: Any) -> None:
    bench = Bench()
    session, wire = bench.session()
    session.wire = None  # type: ignore[assignment]
    session.receive(b"SEND\n")
    assert wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.INTERNAL: 1}


@pytest.mark.parametrize("frame", [b"ACK\nid:%b\n\n\0", b"NACK\nid:%b\n\n\0", b"ACK\nid:%b\ntransaction:t\n\n\0"])
async def test_an_ack_of_a_number_with_thousands_of_digits_is_refused(frame: bytes) -> None:
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + frame % (b"boot-%d-%b" % (consumer, b"1" * 5000)))
    assert b"error-code:1309" in wire.sent
    assert wire.closed is Reason.REFUSED


async def test_far_beyond_the_connection_limit_nobody_is_told_why() -> None:
    bench = Bench(max_connections=2)
    wires = [bench.session()[1], bench.session()[1]]
    for _ in range(OVERFLOW + 3):
        wires.append(Wire())
        bench.edge.open(wires[-1])
    assert [wire.closed for wire in wires[:2]] == [None, None]
    assert {wire.closed for wire in wires[2 : 2 + OVERFLOW]} == {Reason.CONNECTION_LIMIT}
    assert all(b"error-code:1501" in wire.sent for wire in wires[2 : 2 + OVERFLOW])
    assert [(wire.closed, wire.sent) for wire in wires[2 + OVERFLOW :]] == [("aborted", b"")] * 3


class Stranger(Wire):
    """Goes at once when it is aborted."""

    def __init__(self, peer: str) -> None:
        super().__init__()
        self.peer = peer

    def arrive(self, bench: Bench) -> Stranger:
        self.session = bench.edge.open(self)
        return self

    def log_in(self) -> None:
        self.session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert self.take().startswith(b"CONNECTED")

    def abort(self) -> None:
        super().abort()
        self.session.lost()


@pytest.mark.parametrize("limit", [{"max_connections": 5}, {"max_connections_per_ip": 5}])
async def test_who_has_not_logged_in_gives_way_to_newcomers(limit: dict[str, int]) -> None:
    """Or 20,000 silent sockets would close the ports without TLS."""
    bench = Bench(**limit)
    one = Stranger("10.0.0.1:1").arrive(bench)
    one.log_in()
    silent = [Stranger(f"10.0.0.1:{n}").arrive(bench) for n in range(2, 6)]
    late = Stranger("10.0.0.1:9").arrive(bench)
    late.log_in()
    assert [wire.closed for wire in (one, *silent, late)] == [None, "aborted", None, None, None, None]
    for n in range(20):
        silent.append(Stranger(f"10.0.0.1:{100 + n}").arrive(bench))
    assert (one.closed, late.closed, len(bench.edge.sessions)) == (None, None, 5)
    assert [wire.closed for wire in silent[-3:]] == [None] * 3
    for wire in silent[-3:]:
        wire.log_in()
    refused = Stranger("10.0.0.1:7").arrive(bench)
    assert refused.closed is Reason.CONNECTION_LIMIT and b"error-code:1501" in refused.sent
    assert len(bench.edge.strangers) == 0


async def test_the_address_with_the_most_strangers_gives_way_first() -> None:
    bench = Bench(max_connections=6)
    other = Stranger("10.0.0.2:1").arrive(bench)
    silent = [Stranger(f"10.0.0.1:{n}").arrive(bench) for n in range(5)]
    for n in range(10):
        silent.append(Stranger(f"10.0.0.1:{100 + n}").arrive(bench))
    assert other.closed is None
    other.log_in()


async def test_the_memory_of_a_connection_is_free_when_it_is_over() -> None:
    """And not when the collector comes by: thousands may go at once."""
    bench = Bench()
    session, wire = bench.session()
    bench.subscribed(session)
    session.receive(b"SEND\ndestination:/queue/q\n\nbody\0")
    gc.collect()
    gc.disable()
    try:
        session.lost()
        known, parts = id(session), {id(session.intake), id(session.outbox), id(session.wire)}
        del session
        left = set(map(id, gc.get_objects()))  # nothing is made before they are listed: it could get such an id anew
    finally:
        gc.enable()
    assert known not in left
    assert not parts & left
    assert wire.closed is None


async def test_what_was_cheap_before_lets_no_dear_frames_in_at_once() -> None:
    """The bytes of a large body cost so little that 256 KiB were a portion: of small frames that all differ, too."""
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    frames = [b"SEND\ndestination:/queue/%d\nreceipt:%d\n\nx\0" % (n, n) for n in range(500)]
    session.receive(b"".join(frames))
    sent = [each for each in bench.port.commands if type(each) is Publish]
    assert len(sent) <= BURST + 1
    while len(sent) < 500:
        before = len(sent)
        await asyncio.sleep(0)
        sent = [each for each in bench.port.commands if type(each) is Publish]
        assert len(sent) - before <= BURST + 1
    assert [each.address for each in sent] == [str(n) for n in range(500)]
    session.receive(b"".join(frames[:300]) + b"DISCONNECT\n\n\0")
    for _ in range(20):
        await asyncio.sleep(0)
    sent = [each for each in bench.port.commands if type(each) is Publish]
    assert len(sent) == 800 and session.leaving, "and what stands behind them comes last"


@pytest.mark.parametrize(("lines", "size", "most"), [(90, 1, 12), (80, 600, 4), (2, 10_000, 14)])
async def test_frames_with_many_headers_or_long_ones_count_as_several(lines: int, size: int, most: int) -> None:
    """Header blocks of 60 KB took 5 ms each, and 128 of them a turn would still take 0.1 s."""
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)

    def frame(n: int) -> bytes:
        pairs = (b"h%d-%d:%b\n" % (n, line, b"\\c" * (size // 2 or 1)) for line in range(lines))
        return b"SEND\ndestination:/queue/%d\n%b\n\0" % (n, b"".join(pairs))

    def sent() -> list[str]:
        return [each.address for each in bench.port.commands if type(each) is Publish]

    session.receive(b"".join(map(frame, range(40))))
    assert 0 < len(sent()) <= most
    for _ in range(80):
        before = len(sent())
        await asyncio.sleep(0)
        assert len(sent()) - before <= most
    assert sent() == [str(n) for n in range(40)]


async def test_single_acks_of_a_read_come_in_pieces() -> None:
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    session.wire.receive(b"".join(b"ACK\nid:%d\n\n\0" % n for n in range(9000)))
    assert session.wire.more
    taken = 9000 - session.wire.held // len(b"ACK\nid:9999\n\n\0")
    assert taken <= 16 * BURST + 1024


@pytest.mark.parametrize(
    ("frame", "most"),
    [
        (b"SEND\ndestination:/queue/q\ncontent-length:1\n\nx\0", 64 * BURST + 4096),
        (b"SEND\ndestination:/queue/q\n\nx\0", 16 * BURST + 16),
    ],
)
async def test_like_frames_are_counted_as_well(frame: bytes, most: int) -> None:
    """4 MiB of them, which compressed are 4 KiB of a WebSocket, were one step of 0.4 s."""
    bench = Bench()
    session, _ = bench.session()
    session.receive(frame * 40_000)

    def sent() -> int:
        return sum([len(each.run.records) for each in bench.port.commands if type(each) is Publish])

    before = 0
    for _ in range(60):
        assert sent() - before <= most
        before = sent()
        await asyncio.sleep(0)
    assert sent() == 40_000


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"\n\r\n", b"\n\n\n\r\n"])
async def test_empty_lines_are_passed_together(line: bytes) -> None:
    """4 MiB of them took 0.9 s of computing, each by itself, and 3.5 s with LF and CR LF by turns."""
    bench = Bench()
    session, _ = bench.session()
    lines = 0

    def traced(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return traced

    before = session.wire.eols
    sys.settrace(traced)
    try:
        session.wire.receive(line * 50_000 + b"SEND\ndestination:/queue/q\n\nx\0")
    finally:
        sys.settrace(None)
    assert session.wire.eols - before == 50_000 * line.count(b"\n")
    assert lines < 1000


async def test_and_counted() -> None:
    """4 MiB with LF and CR LF by turns take 0.1 s even so."""
    wire = Bench().session()[0].wire
    before = wire.eols
    wire.receive(b"\n\r\n" * 1_000_000)
    assert wire.more and wire.eols - before < 2048 * BURST
    while wire.more:
        assert not wire.receive(b"")
    assert wire.eols - before == 2_000_000 and not wire.held


async def test_those_who_go_on_with_a_read_share_the_time_of_a_turn() -> None:
    """Each had a call of its own in every turn: forty of them made turns of 132 ms."""
    bench = Bench()
    now, log = 0.0, []
    bench.edge.rounds = Rounds(bench.edge.beats.soon, lambda: now)
    submit = bench.port.submit

    def slow(commands: list[Any]) -> None:
        nonlocal now
        now += 0.002
        log.extend(dict.fromkeys(each.session for each in commands))
        submit(commands)

    sessions = [bench.session()[0] for _ in range(20)]
    frames = b"".join([b"SEND\ndestination:/queue/%d\n\nx\0" % n for n in range(4 * BURST)])
    bench.port.submit = slow  # type: ignore[method-assign]
    for session in sessions:
        session.receive(frames)
    longest = 0.0
    while len(log) < 4 * 20:
        began = now
        await asyncio.sleep(0)
        longest = max(longest, now - began)
    assert longest < ROUND_S + 0.002
    order = [session.id for session in sessions]
    assert log == order * 4, "in turn"
    assert not any(session.intake.parked for session in sessions)


async def test_who_goes_on_with_a_read_rests_while_its_owner_has_no_room() -> None:
    bench = Bench()
    session, _ = bench.session()
    bench.port.submit = lambda commands: bench.port.commands.extend(commands) or True  # type: ignore[method-assign]
    session.receive(b"".join([b"SEND\ndestination:/queue/%d\n\nx\0" % n for n in range(3 * BURST)]))
    for sent in (1, 2, 3):
        for _ in range(5):
            await asyncio.sleep(0)
        assert sent * BURST <= len(bench.port.commands) <= min(sent * (BURST + 1), 3 * BURST)
        bench.edge.on_relief()
    assert session.intake.reading


async def test_bytes_that_have_only_come_say_nothing_of_what_they_cost() -> None:
    """Of 60 KB most waited in the session: as if they were cheap, the next portion was the largest that there is."""
    bench = Bench()
    now = 0.0
    rounds = bench.edge.rounds = Rounds(bench.edge.beats.soon, lambda: now)
    session, _ = bench.session()
    frame = b"SEND\ndestination:/queue/%d\n\nx\0"
    reader = SimpleNamespace(portion=FIRST)
    began = rounds.began()
    session.receive(b"".join([frame % n for n in range(1000, 3000)]))
    now += PORTION_S
    rounds.spent(reader, began, 2000 * len(frame % 1000))
    assert LEAST <= reader.portion <= (BURST + 1) * len(frame % 1000)


@pytest.mark.parametrize("end", [b"", b"DISCONNECT\n\n\0"])
async def test_who_goes_while_frames_wait_for_their_turn_has_sent_them(end: bytes) -> None:
    """TLS knows no half-closed connection: it is lost while most of 2,000 SENDs wait, and 735 of them came."""
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    frames = [b"SEND\ndestination:/queue/%d\n\nx\0" % n for n in range(500)]
    session.receive(b"".join(frames) + end)
    session.lost()
    sent = [each.address for each in bench.port.commands if type(each) is Publish]
    assert sent == [str(n) for n in range(500)]
    assert type(bench.port.commands[-1]) is not Publish, "its end comes behind them"
