"""One edge at an owner: what was taken is confirmed for the attachment it was made to, and nothing else is believed."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    Barrier,
    Command,
    Confirm,
    Decide,
    Disconnect,
    Grant,
    Hold,
    Inquire,
    Prepare,
    Publish,
    Resume,
    Settle,
    Subscribe,
    Transact,
    Unsubscribe,
)
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Refused, Resumed
from broker.core.errors import Code, ProtocolViolation
from broker.core.heartbeat import Heartbeat
from broker.core.message import BLOB, NO_IDS, Blob, Run
from broker.core.reasons import Reason
from broker.core.request import Request
from broker.link.codec.codec import CONGESTED, DOWN_PING, MOVED, NUMBER_BITS, OPENED, Open, SlotState
from broker.link.codec.command_codec import put_command
from broker.link.codec.effect_codec import read_effects
from broker.link.owner_side.attach_barrier import AttachBarrier
from broker.link.owner_side.edge_peer import EdgePeer, Resting, edge_of
from broker.link.stats import LinkStats
from broker.rpc.v1 import link_pb2 as pb

SLOT, TOKEN, EPOCH = 5, 7, 3
MINE = TOKEN << NUMBER_BITS


class Stream:
    """What was sent, until it is read."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.send = self.sent.append

    def read(self) -> list[pb.Down]:
        sent, self.sent[:] = [pb.Down.FromString(data) for data in self.sent], []
        return sent


class Bench:
    """A server that leads slot 5 in epoch 3, and one edge that has opened it."""

    def __init__(self) -> None:
        self.flat = False
        self.batch_bytes = 1 << 20
        self.served, self.resting = {SLOT: EPOCH}, {}
        self.stats, self.silence_s = LinkStats(), 5.0
        self.new_body = self.open_body = self.find_body = None
        self.attach_barrier: AttachBarrier[EdgePeer] = AttachBarrier()
        self.soon: list[EdgePeer] = []
        self.flush_soon = self.soon.append
        self.has_published, self.has_told = False, True
        self.opening = count(1).__next__
        self.batch = 0
        self.peer = EdgePeer(pb.Hello(edge="e", boot="b", token=TOKEN), self)  # type: ignore[arg-type]
        self.stream = Stream()
        self.peer.begin(self.stream)  # type: ignore[arg-type]

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(1.0, 2)

    def published(self, slot: int, dedup: tuple[int, int]) -> bool:
        return self.has_published

    def told(self, token: int, slot: int) -> bool:
        return self.has_told

    def says(self, *commands: Any, **more: Any) -> list[Command]:
        """In the next batch."""
        up = pb.Up(**more)
        for command in commands:
            put_command(command, up)
        if commands and not up.batch:
            up.batch = self.batch = self.batch + 1
        return self.peer.receive(up)

    def opens(self) -> None:
        self.says(Open(SLOT, EPOCH))
        self.hears()

    def attaches(
        self, number: int = 1, ack: AckMode = AckMode.AUTO, confirm: bool = True, **more: Any
    ) -> list[Command]:
        command = Subscribe(SLOT, 1, 0, number, "a", Routing.ANYCAST, ack)
        command.settle_by(confirm, False)
        return self.says(command)

    def deliver(self, number: int = 1) -> None:
        self.peer.deliver(Deliver(MINE | number, Run([4], b"", [b"\nx\0"], 3), 10))

    def hears(self) -> list[Any]:
        self.peer.flush()
        return [effect for down in self.stream.read() for effect in read_effects(down)]

    def sends(self) -> int:
        """The number of the batch that has left."""
        self.peer.flush()
        (down,) = self.stream.read()
        return int(down.batch)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.opens()
    return made


def states(effects: list[Any]) -> list[tuple[int, int, int]]:
    return [(each.slot, each.epoch, each.state) for each in effects if isinstance(each, SlotState)]


def confirmed(commands: list[Command]) -> list[tuple[int, int]]:
    assert all([isinstance(command, Confirm) for command in commands])
    return [(command.consumer, command.count) for command in commands]  # type: ignore[union-attr]


def publish(blob: Blob | None = None, seq: int = 9) -> Publish:
    run = Run(NO_IDS, b"", [b"\n"], 1, BLOB, blob=blob) if blob else Run(NO_IDS, b"", [b"\nx\0"], 3)
    return Publish(SLOT, 1, seq, "a", Routing.ANYCAST, run)


# ── what is believed ───────────────────────────────────────────────────────────────────────────────────


def test_a_slot_is_opened_in_the_very_epoch_or_not_at_all():
    for epoch, wanted in ((EPOCH, OPENED), (EPOCH - 1, MOVED), (EPOCH + 1, MOVED)):
        bench = Bench()
        assert bench.says(Open(SLOT, epoch)) == []
        assert states(bench.hears()) == [(SLOT, EPOCH, wanted)] and bench.peer.leads(SLOT) is (wanted == OPENED)
    bench = Bench()
    bench.says(Open(SLOT + 1, 1))
    assert states(bench.hears()) == [(SLOT + 1, 0, MOVED)]


def test_what_is_asked_of_a_slot_that_is_not_open_happens_not_and_is_told_once():
    bench = Bench()
    assert bench.says(publish(), Grant(SLOT, 1, 5), publish()) == []
    assert states(bench.hears()) == [(SLOT, EPOCH, MOVED)] and bench.stats.moved == 1
    bench.opens()
    assert len(bench.says(publish(), publish())) == 2
    bench.served = {}
    assert bench.says(publish()) == [] and not bench.peer.leads(SLOT)


def test_a_gap_or_a_batch_that_was_never_sent_is_refused_and_nothing_of_it_happens(bench):
    for wrong in ({"batch": bench.batch + 2}, {"batch": bench.batch}, {"batch": bench.batch + 1, "taken": 99}):
        with pytest.raises(ProtocolViolation) as refused:
            bench.says(Grant(SLOT, 1, 5), **wrong)
        assert refused.value.code is Code.BAD_COMPONENT_MESSAGE
    assert len(bench.says(Grant(SLOT, 1, 5))) == 1, "it counts on where it was"


def test_numbers_of_an_edge_are_in_its_own_name_space(bench):
    (command,) = bench.says(Grant(SLOT, 1, 5))
    assert command.consumer == MINE | 1 and edge_of(command.consumer) == TOKEN and edge_of(1) == 0


# ── deliveries ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_delivery_is_confirmed_when_its_batch_was_taken_and_once(bench):
    bench.attaches()
    for _ in range(2):
        bench.deliver()
    first = bench.sends()
    bench.deliver()
    second = bench.sends()
    assert confirmed(bench.says(taken=first)) == [(MINE | 1, 2)]
    assert confirmed(bench.says(taken=first)) == []
    assert confirmed(bench.says(taken=second)) == [(MINE | 1, 1)]


def test_several_batches_are_taken_at_once(bench):
    bench.attaches()
    bench.attaches(2)
    for number in (1, 2, 1):
        bench.deliver(number)
        last = bench.sends()
    assert confirmed(bench.says(taken=last)) == [(MINE | 1, 1), (MINE | 2, 1), (MINE | 1, 1)]


def test_only_consumers_that_the_edge_settles_for_are_confirmed(bench):
    bench.attaches(1, AckMode.CLIENT, confirm=False)
    bench.deliver()
    assert bench.says(taken=bench.sends()) == []


def test_what_reached_nobody_is_not_confirmed(bench):
    bench.attaches()
    bench.deliver()
    assert bench.says(taken=bench.sends(), gone=[1, 99]) == []


def test_who_attached_again_has_told_what_it_holds(bench):
    bench.attaches()
    bench.deliver()
    batch = bench.sends()
    bench.attaches()
    assert bench.says(taken=batch) == []


def test_nothing_is_confirmed_between_an_open_and_the_attachment_behind_it(bench):
    """Of two Opens on their way the edge heeds the answer to the last: what came behind the first has reached nobody.
    A Resume may stand a batch behind its Open, and what the edge has taken is told before it."""
    bench.attaches()
    bench.deliver()
    batch = bench.sends()
    assert bench.says(Open(SLOT, EPOCH), taken=batch - 1) == []
    assert bench.says(taken=batch) == []


def test_nothing_is_confirmed_for_a_slot_that_is_led_elsewhere_now(bench):
    bench.attaches()
    bench.deliver()
    batch = bench.sends()
    bench.served = {SLOT: EPOCH + 1}
    assert bench.says(taken=batch) == []


def test_what_was_handed_out_before_the_last_open_is_not_sent(bench):
    bench.deliver()
    assert bench.hears() == [], "nobody consumes"
    bench.attaches()
    bench.says(Open(SLOT, EPOCH))
    bench.hears()
    bench.deliver()
    assert bench.hears() == [], "the Resume behind that Open tells of it"
    bench.attaches()
    bench.deliver()
    assert [type(effect) for effect in bench.hears()] == [Deliver]


def comes_back(bench: Bench, number: int = 1) -> Subscribe:
    """Its consumer is attached again, behind an Open: what the shard is asked to do."""
    bench.says(Open(SLOT, EPOCH))
    bench.hears()
    again = Subscribe(SLOT, 1, 0, number, "a", Routing.ANYCAST, AckMode.CLIENT)
    again.resumes(Resume([], []))
    (asked,) = bench.says(again)
    assert isinstance(asked, Subscribe)
    return asked


def resumed(asked: Subscribe) -> Resumed:
    assert asked.resume is not None
    return Resumed(asked.consumer, asked.resume.behind)


@pytest.mark.parametrize(
    "early",
    [
        Deliver(MINE | 1, Run([4], b"", [b"\nx\0"], 3), 10),
        ConsumerClosed(MINE | 1, Reason.CLIENT_GONE),
        BrowseEnd(MINE | 1),
    ],
    ids=lambda early: type(early).__name__,
)
def test_of_a_consumer_that_comes_back_nothing_is_told_before_the_shard_has_attached_it(bench, early):
    """Its Resume, which knows nothing of that, would take the message from its client, whose ACK is refused then; the
    end of the old attachment would be taken for that of the new one, which held its messages for nobody."""
    bench.attaches()
    tell = bench.peer.deliver if isinstance(early, Deliver) else bench.peer.other
    first = comes_back(bench)
    tell(early)
    second = comes_back(bench)
    bench.peer.other(resumed(first))
    tell(early)
    assert bench.hears() == [], "the first one was of another Open"
    bench.peer.other(resumed(second))
    tell(early)
    assert [type(effect) for effect in bench.hears()] == [type(early)]


ASKED = [
    Subscribe(SLOT, 1, 21 << 8 | SLOT, 1, "a", Routing.ANYCAST, AckMode.AUTO),
    Unsubscribe(SLOT, 1, 21 << 8 | SLOT, 1, "a"),
    Settle(SLOT, 1, 21 << 8 | SLOT, 1, [4], Outcome.ACK),
    Hold(SLOT, 1, 21 << 8 | SLOT, 1, [4]),
    Barrier(SLOT, 1, 21 << 8 | SLOT),
    Prepare(SLOT, 1, 21 << 8 | SLOT, "tx", 1, []),
    Decide(SLOT, 1, 21 << 8 | SLOT, "tx", True),
    Inquire(SLOT, 1, 21 << 8 | SLOT, "tx"),
]


@pytest.mark.parametrize("command", ASKED, ids=lambda command: type(command).__name__)
def test_what_is_asked_again_is_answered_by_what_came_of_the_last_time(bench, command):
    """A SUBSCRIBE that is refused at first, and granted when it comes again behind another Open, would consume for
    nobody."""
    seq = command.seq
    (first,) = bench.says(command)
    bench.says(Open(SLOT, EPOCH))
    bench.hears()
    (second,) = bench.says(command)
    for asked, heard in ((first, []), (second, [seq, seq])):
        bench.peer.done(asked.session, asked.seq)
        bench.peer.other(Refused(asked.session, asked.seq, Code.INTERNAL))
        assert [effect.seq for effect in bench.hears()] == heard


def test_what_happens_once_is_answered_whichever_time_is_meant(bench):
    """A COMMIT that is under way is answered once, under the number of its first time."""
    for command in (publish(seq=21 << 8 | SLOT), Transact(SLOT, 1, 21 << 8 | SLOT, [])):
        assert not isinstance(command, Request)
        (asked,) = bench.says(command)
        bench.opens()
        bench.peer.done(asked.session, asked.seq)
        assert [effect.seq for effect in bench.hears()] == [command.seq]


def test_an_open_is_answered_by_its_number(bench):
    bench.says(Open(SLOT, EPOCH, opening=12))
    assert [effect.opening for effect in bench.hears()] == [12]


def test_a_batch_leaves_when_it_is_full(bench):
    bench.attaches()
    bench.batch_bytes = 7
    for _ in range(2):
        bench.deliver()
    assert bench.stream.sent == []
    bench.batch_bytes = 6
    bench.deliver()
    assert len(bench.stream.sent) == 1


# ── what else leaves ───────────────────────────────────────────────────────────────────────────────────


def test_what_was_taken_rides_on_what_is_sent_and_is_told_once(bench):
    bench.says(publish())
    bench.peer.done(MINE | 1, 9)
    bench.peer.flush()
    (down,) = bench.stream.read()
    assert (down.taken, down.batch) == (bench.batch, 2)
    bench.peer.flush()
    assert bench.stream.sent == []
    bench.says(publish())
    bench.peer.flush()
    (down,) = bench.stream.read()
    assert (down.taken, down.batch) == (bench.batch, 0), "alone it is no batch: nothing is to be taken of it"


def test_pressure_is_told_once_and_by_a_flush_to_come(bench):
    bench.peer.press(True)
    assert bench.soon == [bench.peer] and bench.peer.has_news() and not bench.peer.has_news()
    bench.peer.flush()
    (down,) = bench.stream.read()
    assert down.pressure == CONGESTED and bench.peer.has_news()
    bench.peer.flush()
    assert bench.stream.sent == []


def test_only_a_quiet_stream_is_pinged(bench):
    bench.peer.ping_if_quiet(1.0)
    assert bench.stream.sent == [], "it has just said something"
    bench.peer.ping_if_quiet(2.0)
    assert bench.stream.sent == [DOWN_PING]


def test_pieces_of_a_body_leave_in_messages_of_their_own(bench):
    for data in (b"x", b"y"):
        bench.peer.send_body(pb.Body(id=1, data=data))
    assert [[body.data for body in down.bodies] for down in bench.stream.read()] == [[b"x"], [b"y"]]
    bench.peer.send_body(pb.Body(id=1))
    assert bench.stream.sent == [] and bench.soon == [bench.peer]


def test_of_a_stream_that_is_over_nothing_counts_and_nothing_is_kept_for_it(bench):
    bench.attaches()
    bench.deliver()
    batch = bench.sends()
    bench.deliver()
    bench.peer.end()
    bench.peer.done(MINE | 1, 9)
    bench.peer.other(ConsumerClosed(MINE | 1, 1))  # type: ignore[arg-type]
    bench.peer.send_body(pb.Body(id=1, data=b"x"))
    bench.peer.flush()
    assert bench.stream.sent == [] and not bench.peer.leads(SLOT) and len(bench.peer.consumers) == 0
    bench.peer.begin(bench.stream)
    bench.batch = 0
    assert bench.hears() == []
    with pytest.raises(ProtocolViolation, match=f"batch {batch} was never sent"):
        bench.says(taken=batch)
    bench.opens()
    assert bench.peer.streams == 2


# ── what has to wait, or is answered here ──────────────────────────────────────────────────────────────


def refusals(bench: Bench) -> list[tuple[int, Code]]:
    return [(each.seq, each.code) for each in bench.hears() if isinstance(each, Refused)]


def prepare(*parts: Any) -> Prepare:
    return Prepare(SLOT, 1, 9, "tx", 1, list(parts))


def test_a_transaction_waits_for_the_edges_of_the_consumers_it_settles_for(bench):
    settle = Settle(SLOT, 1, 0, 1, [4], Outcome.ACK)
    bench.has_told = False
    assert bench.says(prepare(settle)) == [] and refusals(bench) == [(9, Code.OWNER_UNAVAILABLE)]
    assert len(bench.says(prepare(publish(seq=0)))) == 1, "it settles for nobody"
    bench.has_told = True
    assert len(bench.says(prepare(settle))) == 1 and refusals(bench) == []


def test_a_large_body_that_is_not_here_is_refused_unless_its_message_was_taken_before(bench):
    large = publish(Blob(77, 1000))
    assert bench.says(large) == [] and refusals(bench) == [(9, Code.OWNER_MOVED)]
    assert bench.says(prepare(large)) == [] and refusals(bench) == [(9, Code.OWNER_MOVED)]
    large.numbered(9, (1, 1))
    bench.has_published = True
    assert len(bench.says(large)) == 1 and refusals(bench) == []


def test_while_a_slot_fills_only_who_comes_back_comes_in(bench):
    bench.attach_barrier.open(SLOT, lambda: None)
    send = publish()
    assert bench.says(send) == []
    back = Subscribe(SLOT, 1, 0, 1, "a", Routing.ANYCAST, AckMode.INDIVIDUAL)
    back.resumes(Resume([], [], []))
    assert bench.says(back) == [], "behind a SEND of the same edge that waits"
    ((_, opening, first), (_, _, second)) = bench.attach_barrier.release(SLOT, 9)
    assert [type(first), type(second)] == [Publish, Subscribe]
    assert bench.peer.let_in(opening, first) is first
    bench.says(Open(SLOT, EPOCH))
    assert bench.peer.let_in(opening, second) is None, "it is in the replay behind the new Open"


def test_all_has_been_told_only_of_the_epoch_that_is_led(bench):
    news = []
    bench.attach_barrier.open(SLOT, lambda: news.append(SLOT))
    bench.says(Open(SLOT, EPOCH - 1, told=True))
    bench.attach_barrier.call()
    assert bench.peer.told == {} and news == []
    bench.says(Open(SLOT, EPOCH, told=True))
    bench.attach_barrier.call()
    assert bench.peer.told == {SLOT: EPOCH} and news == [SLOT]
    bench.says(Open(SLOT, EPOCH))
    assert bench.peer.told == {}, "it says all again"


# ── the end ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_end_of_a_process_is_the_end_of_each_of_its_sessions_where_it_is_led(bench):
    bench.attaches(1)
    bench.attaches(2)
    ends = [(type(end), end.slot, end.session) for end in bench.peer.farewell()]
    assert ends == [(Disconnect, SLOT, MINE | 1)]
    bench.served = {}
    assert list(bench.peer.farewell()) == [] and len(bench.peer.consumers) == 0


def test_consumers_of_a_slot_that_rests_are_remembered(bench):
    bench.attaches()
    bench.served, bench.resting = {}, {SLOT: Resting(EPOCH)}
    assert bench.peer.sweep() and len(bench.peer.consumers) == 1
    bench.resting = {SLOT: Resting(EPOCH + 1)}
    assert bench.peer.sweep() and len(bench.peer.consumers) == 0


def test_a_session_that_ends_takes_its_consumers_along(bench):
    bench.attaches(1)
    bench.says(Disconnect(SLOT, 1))
    assert len(bench.peer.consumers) == 0


def test_answers_go_under_their_own_numbers(bench):
    bench.peer.done(MINE | 1, 9)
    (done,) = bench.hears()
    assert isinstance(done, Done) and (done.session, done.seq) == (1, 9)
