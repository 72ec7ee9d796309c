"""One slot as an edge sees it: what is kept until it is answered, and what a new owner is told, in which order."""

from __future__ import annotations

from broker.core.address import AckMode, Routing
from broker.core.commands import Barrier, Command, Disconnect, Grant, Publish, Settle, Subscribe
from broker.core.effects import Done, Refused
from broker.core.errors import Code
from broker.core.message import NO_IDS, Blob, Run
from broker.link.codec.codec import SLOT_BITS, Open
from broker.link.edge_side.consumer_replay import ReplayedConsumer
from broker.link.edge_side.slot_channel import SlotChannel, answer

SLOT = 3


class Link:
    """The stream to whoever leads the slot."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.slots: set[int] = set()
        self.sent: list[Command | Open] = []

    def carry(self, slot: int, nbytes: int) -> None:
        self.slots.add(slot)
        self.nbytes += nbytes

    def release(self, slot: int, nbytes: int) -> None:
        self.slots.discard(slot)
        self.nbytes -= nbytes

    def add(self, slot: int, command: Command, nbytes: int) -> None:
        assert slot == SLOT
        self.sent.append(command)


def channel() -> tuple[SlotChannel, Link]:
    lane, link = SlotChannel(SLOT, 0.0), Link()
    lane.join(link)  # type: ignore[arg-type]
    return lane, link


def publish(blob: bool = False) -> Publish:
    run = Run(NO_IDS, b"", [b"\nx\0"], 3, blob=Blob(1, 9) if blob else None)
    return Publish(SLOT, 1, 0, "a", Routing.ANYCAST, run)


def consumer(lane: SlotChannel, number: int = 7, room: int = 100, session: int = 1) -> ReplayedConsumer:
    made = ReplayedConsumer(Subscribe(SLOT, session, 5, number, "a", Routing.ANYCAST, AckMode.INDIVIDUAL, room=room))
    lane.begin(made)
    return made


def give(to: ReplayedConsumer, *ids: int) -> None:
    to.delivered(Run(list(ids), b"", [b"\n\0"] * len(ids), 2 * len(ids)), 10)


def again(lane: SlotChannel) -> list[Command | Open]:
    return [command for command, _ in lane.replay()]


def test_a_command_is_kept_and_weighs_until_it_is_answered() -> None:
    lane, link = channel()
    one, two = lane.keep(publish(), 11, 40), lane.keep(publish(), 0, 60)
    assert (one.number, two.number) == (1, 2) and lane.seq(two) == 2 << SLOT_BITS | SLOT
    assert (lane.nbytes, link.nbytes) == (100, 100)
    lane.forget(one)
    lane.forget(one)  # an answer that came twice
    assert list(lane.kept) == [2] and (lane.nbytes, link.nbytes) == (60, 60)
    assert lane.leave() is link and link.nbytes == 0 and not link.slots and lane.link is None
    lane.forget(two)
    assert (lane.nbytes, link.nbytes) == (0, 0) and lane.leave() is None


def test_what_waits_goes_with_the_slot_to_another_link() -> None:
    lane, link = channel()
    lane.keep(publish(), 0, 40)
    lane.leave()
    other = Link()
    lane.join(other)  # type: ignore[arg-type]
    assert (link.nbytes, other.nbytes) == (0, 40) and other.slots == {SLOT}


def test_nothing_is_sent_where_nobody_hears_it() -> None:
    lane, link = channel()
    lane.send(publish(), 1)
    assert link.sent == [] and lane.begin_again() == 2
    lane.send(publish(), 1)
    assert len(link.sent) == 3 and isinstance(link.sent[2], Publish)
    lane.stop()
    lane.send(publish(), 1)
    assert len(link.sent) == 3


def test_a_slot_is_down_since_it_was_open_last() -> None:
    lane, _ = channel()
    lane.down(5.0)
    assert lane.down_since == 0.0, "it was not open"
    assert lane.give_up() and not lane.give_up() and lane.refusing
    lane.open()
    assert lane.opened and not lane.refusing
    lane.down(9.0)
    assert lane.down_since == 9.0 and not lane.opened
    lane.down(12.0)
    assert lane.down_since == 9.0


def test_who_is_shelved_is_waited_for_anew_when_that_ends() -> None:
    lane, _ = channel()
    lane.shelve("it stops its leaders", 3.0)
    lane.give_up()
    assert (lane.shelved, lane.refusing, lane.down_since) == ("it stops its leaders", True, 0.0)
    lane.shelve("", 8.0)
    assert (lane.shelved, lane.refusing, lane.down_since) == ("", False, 8.0)


def test_what_others_may_overtake_is_alone_in_its_sequence() -> None:
    lane, _ = channel()
    one, two = lane.keep(publish(), 0, 0), lane.keep(publish(), 0, 0)
    assert lane.turn(one) == (1, 1) and lane.turn(two) == (2, 1)
    lane.forget(one)
    three = lane.keep(publish(), 0, 0)
    assert lane.turn(three) == (1, 2), "the sequence is free again, and goes on"


def test_a_new_owner_hears_of_consumers_before_what_was_not_answered() -> None:
    lane, _ = channel()
    known = consumer(lane)
    known.begins()
    give(known, 4)
    sent = publish()
    lane.keep(sent, 0, 3)
    first, attach, message, last = again(lane)
    assert isinstance(first, Open) and not first.told and isinstance(last, Open) and last.told
    assert isinstance(attach, Subscribe) and attach.resume is not None and attach.resume.held == [(4, 4)]
    assert message is sent
    assert [type(command) for command in again(lane)] == [Open, Subscribe, Publish, Open], "no attach is kept twice"
    assert sum(entry.resume for entry in lane.kept.values()) == 1


def test_what_has_ended_or_waits_is_not_told_again() -> None:
    lane, _ = channel()
    seen = consumer(lane)
    seen.begins()
    seen.ends()
    lane.keep(publish(), 0, 3).delay()
    assert [type(command) for command in again(lane)] == [Open, Open]


def test_of_what_has_happened_only_the_answer_is_asked_for() -> None:
    lane, _ = channel()
    entry = lane.keep(publish(), 0, 3)
    entry.happened = True
    _, barrier, _ = again(lane)
    assert isinstance(barrier, Barrier) and barrier.seq == lane.seq(entry)
    entry = lane.keep(Disconnect(SLOT, 1, True), 0, 3)
    end, behind = lane.commands(entry)
    assert end is entry.command and isinstance(behind, Barrier) and behind.seq == lane.seq(entry)


def test_room_comes_behind_what_was_settled() -> None:
    lane, _ = channel()
    known = consumer(lane, room=100)
    known.begins()
    give(known, 4)
    settle = Settle(SLOT, 1, 0, 7, [4])
    known.set_aside(lane.keep(settle, 0, 3), [4])
    _, attach, said, room, _ = again(lane)
    assert isinstance(attach, Subscribe) and attach.room == 0 and said is settle
    assert isinstance(room, Grant) and (room.consumer, room.nbytes) == (7, 90)


def test_a_subscription_that_was_not_answered_is_asked_for_in_its_place() -> None:
    lane, _ = channel()
    known = consumer(lane)
    lane.keep(known.command, 5, 3).concerns(known)
    lane.keep(publish(), 0, 3)
    assert [type(command) for command in again(lane)] == [Open, Subscribe, Publish, Open]


def test_a_large_message_of_before_is_asked_for_alone() -> None:
    lane, link = channel()
    large = lane.keep(publish(blob=True), 0, 3)
    large.command.seq = lane.seq(large)  # type: ignore[union-attr]
    large.carries(Body())  # type: ignore[arg-type]
    lane.keep(publish(), 0, 3)
    assert lane.begin_again() == 4
    assert [type(command) for command in link.sent] == [Open, Publish] and lane.asked is large
    lane.send(publish(), 1)
    assert len(link.sent) == 2 and len(lane.rest) == 3
    lane.go_on()
    assert len(link.sent) == 5 and lane.asked is None and not lane.rest
    lane.forget(large)
    assert large.body.released  # type: ignore[union-attr]


class Body:
    kept = True
    opening = 0
    released = False

    def release(self) -> None:
        self.released = True


def test_a_barrier_marks_what_auto_consumers_were_given() -> None:
    lane, _ = channel()
    auto = ReplayedConsumer(Subscribe(SLOT, 1, 5, 8, "a", Routing.ANYCAST, AckMode.AUTO))
    lane.begin(auto)
    give(auto, 1, 2)
    barrier = lane.mark()
    assert lane.marked is not None and barrier.seq == lane.seq(lane.marked)
    give(auto, 3)
    assert (auto.old, auto.spans) == ([(1, 2)], [(3, 3)])
    lane.unmark(settled=False)
    assert auto.old == [(1, 2)] and lane.marked is None
    lane.mark()
    lane.unmark(settled=True)
    assert (auto.old, auto.spans) == ([], [])


def test_consumers_are_found_by_their_session_until_they_end() -> None:
    lane, _ = channel()
    one, two, other = consumer(lane, 7), consumer(lane, 8), consumer(lane, 9, session=2)
    assert lane.of_session(1) == [one, two] and lane.of_session(2) == [other] and lane.of_session(3) == []
    lane.end(one)
    lane.end(one)
    assert lane.of_session(1) == [two]
    lane.end(two)
    assert lane.sessions.keys() == {2} and lane.consumers.keys() == {9}


def test_an_answer_is_for_who_asked() -> None:
    lane, _ = channel()
    asked, nobody = lane.keep(publish(), 11, 0), lane.keep(publish(), 0, 0)
    done = answer(asked, None)
    assert isinstance(done, Done) and (done.session, done.seq) == (1, 11)
    assert answer(nobody, None) is None
    refused = answer(asked, Refused(0, 0, Code.DISK_FULL, "no room"))
    assert isinstance(refused, Refused) and (refused.session, refused.seq, refused.detail) == (1, 11, "no room")


def test_blocked_addresses_and_bodies_are_taken_once() -> None:
    lane, _ = channel()
    lane.blocked[1, "a"] = None
    assert list(lane.take_blocked()) == [(1, "a")] and not list(lane.take_blocked())
    lane.waiting.append(Body())  # type: ignore[arg-type]
    assert len(lane.take_waiting()) == 1 and lane.take_waiting() == []


def test_a_consumer_that_has_messages_is_told_before_a_large_one_that_may_take_long() -> None:
    for large in (False, True):
        lane, _ = channel()
        entry = lane.keep(publish(blob=large), 0, 3)
        if large:
            entry.carries(Body())  # type: ignore[arg-type]
        known, fresh = consumer(lane, 7), consumer(lane, 8)
        give(known, 4)
        for each in (known, fresh):
            lane.keep(each.command, 5, 3).concerns(each)
        kinds = [getattr(command, "consumer", type(command)) for command in again(lane)]
        assert kinds == ([Open, 7, Publish, 8, Open] if large else [Open, Publish, 7, 8, Open])


def test_room_waits_for_settlements_of_a_subscription_that_was_not_answered_too() -> None:
    lane, _ = channel()
    known = consumer(lane)
    lane.keep(known.command, 5, 3).concerns(known)
    give(known, 4)
    known.set_aside(lane.keep(Settle(SLOT, 1, 0, 7, [4]), 0, 3), [4])
    _, attach, _, room, _ = again(lane)
    assert isinstance(attach, Subscribe) and attach.room == 0 and isinstance(room, Grant) and room.nbytes == 90
