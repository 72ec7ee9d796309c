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


def new_channel() -> tuple[SlotChannel, Link]:
    channel, link = SlotChannel(SLOT, 0.0), Link()
    channel.join(link)  # type: ignore[arg-type]
    return channel, link


def publish(blob: bool = False) -> Publish:
    run = Run(NO_IDS, b"", [b"\nx\0"], 3, blob=Blob(1, 9) if blob else None)
    return Publish(SLOT, 1, 0, "a", Routing.ANYCAST, run)


def consumer(channel: SlotChannel, number: int = 7, room: int = 100, session: int = 1) -> ReplayedConsumer:
    made = ReplayedConsumer(Subscribe(SLOT, session, 5, number, "a", Routing.ANYCAST, AckMode.INDIVIDUAL, room=room))
    channel.begin(made)
    return made


def give(to: ReplayedConsumer, *ids: int) -> None:
    to.delivered(Run(list(ids), b"", [b"\n\0"] * len(ids), 2 * len(ids)), 10)


def again(channel: SlotChannel) -> list[Command | Open]:
    return [command for command, _ in channel.replay()]


def test_a_command_is_kept_and_weighs_until_it_is_answered() -> None:
    channel, link = new_channel()
    one, two = channel.keep(publish(), 11, 40), channel.keep(publish(), 0, 60)
    assert (one.number, two.number) == (1, 2) and channel.seq(two) == 2 << SLOT_BITS | SLOT
    assert (channel.nbytes, link.nbytes) == (100, 100)
    channel.forget(one)
    channel.forget(one)  # an answer that came twice
    assert list(channel.kept) == [2] and (channel.nbytes, link.nbytes) == (60, 60)
    assert channel.leave() is link and link.nbytes == 0 and not link.slots and channel.link is None
    channel.forget(two)
    assert (channel.nbytes, link.nbytes) == (0, 0) and channel.leave() is None


def test_what_waits_goes_with_the_slot_to_another_link() -> None:
    channel, link = new_channel()
    channel.keep(publish(), 0, 40)
    channel.leave()
    other = Link()
    channel.join(other)  # type: ignore[arg-type]
    assert (link.nbytes, other.nbytes) == (0, 40) and other.slots == {SLOT}


def test_nothing_is_sent_where_nobody_hears_it() -> None:
    channel, link = new_channel()
    channel.send(publish(), 1)
    assert link.sent == [] and channel.begin_again() == 2
    channel.send(publish(), 1)
    assert len(link.sent) == 3 and isinstance(link.sent[2], Publish)
    channel.stop()
    channel.send(publish(), 1)
    assert len(link.sent) == 3


def test_a_slot_is_down_since_it_was_open_last() -> None:
    channel, _ = new_channel()
    channel.down(5.0)
    assert channel.down_since == 0.0, "it was not open"
    assert channel.give_up() and not channel.give_up() and channel.refusing
    channel.open()
    assert channel.opened and not channel.refusing
    channel.down(9.0)
    assert channel.down_since == 9.0 and not channel.opened
    channel.down(12.0)
    assert channel.down_since == 9.0


def test_who_is_shelved_is_waited_for_anew_when_that_ends() -> None:
    channel, _ = new_channel()
    channel.shelve("it stops its leaders", 3.0)
    channel.give_up()
    assert (channel.shelved, channel.refusing, channel.down_since) == ("it stops its leaders", True, 0.0)
    channel.shelve("", 8.0)
    assert (channel.shelved, channel.refusing, channel.down_since) == ("", False, 8.0)


def test_what_others_may_overtake_is_alone_in_its_sequence() -> None:
    channel, _ = new_channel()
    one, two = channel.keep(publish(), 0, 0), channel.keep(publish(), 0, 0)
    assert channel.turn(one) == (1, 1) and channel.turn(two) == (2, 1)
    channel.forget(one)
    three = channel.keep(publish(), 0, 0)
    assert channel.turn(three) == (1, 2), "the sequence is free again, and goes on"


def test_a_new_owner_hears_of_consumers_before_what_was_not_answered() -> None:
    channel, _ = new_channel()
    known = consumer(channel)
    known.begins()
    give(known, 4)
    sent = publish()
    channel.keep(sent, 0, 3)
    first, attach, message, last = again(channel)
    assert isinstance(first, Open) and not first.told and isinstance(last, Open) and last.told
    assert isinstance(attach, Subscribe) and attach.resume is not None and attach.resume.held == [(4, 4)]
    assert message is sent
    assert [type(command) for command in again(channel)] == [Open, Subscribe, Publish, Open], "no attach is kept twice"
    assert sum(entry.resume for entry in channel.kept.values()) == 1


def test_what_has_ended_or_waits_is_not_told_again() -> None:
    channel, _ = new_channel()
    seen = consumer(channel)
    seen.begins()
    seen.ends()
    channel.keep(publish(), 0, 3).delay()
    assert [type(command) for command in again(channel)] == [Open, Open]


def test_of_what_has_happened_only_the_answer_is_asked_for() -> None:
    channel, _ = new_channel()
    entry = channel.keep(publish(), 0, 3)
    entry.happened = True
    _, barrier, _ = again(channel)
    assert isinstance(barrier, Barrier) and barrier.seq == channel.seq(entry)
    entry = channel.keep(Disconnect(SLOT, 1, True), 0, 3)
    end, behind = channel.commands(entry)
    assert end is entry.command and isinstance(behind, Barrier) and behind.seq == channel.seq(entry)


def test_room_comes_behind_what_was_settled() -> None:
    channel, _ = new_channel()
    known = consumer(channel, room=100)
    known.begins()
    give(known, 4)
    settle = Settle(SLOT, 1, 0, 7, [4])
    known.set_aside(channel.keep(settle, 0, 3), [4])
    _, attach, said, room, _ = again(channel)
    assert isinstance(attach, Subscribe) and attach.room == 0 and said is settle
    assert isinstance(room, Grant) and (room.consumer, room.nbytes) == (7, 90)


def test_a_subscription_that_was_not_answered_is_asked_for_in_its_place() -> None:
    channel, _ = new_channel()
    known = consumer(channel)
    channel.keep(known.command, 5, 3).concerns(known)
    channel.keep(publish(), 0, 3)
    assert [type(command) for command in again(channel)] == [Open, Subscribe, Publish, Open]


def test_a_large_message_of_before_is_asked_for_alone() -> None:
    channel, link = new_channel()
    large = channel.keep(publish(blob=True), 0, 3)
    large.command.seq = channel.seq(large)  # type: ignore[union-attr]
    large.carries(Body())  # type: ignore[arg-type]
    channel.keep(publish(), 0, 3)
    assert channel.begin_again() == 4
    assert [type(command) for command in link.sent] == [Open, Publish] and channel.asked is large
    channel.send(publish(), 1)
    assert len(link.sent) == 2 and len(channel.rest) == 3
    channel.go_on()
    assert len(link.sent) == 5 and channel.asked is None and not channel.rest
    channel.forget(large)
    assert large.body.released  # type: ignore[union-attr]


class Body:
    kept = True
    opening = 0
    released = False

    def release(self) -> None:
        self.released = True


def test_a_barrier_marks_what_auto_consumers_were_given() -> None:
    channel, _ = new_channel()
    auto = ReplayedConsumer(Subscribe(SLOT, 1, 5, 8, "a", Routing.ANYCAST, AckMode.AUTO))
    channel.begin(auto)
    give(auto, 1, 2)
    barrier = channel.mark()
    assert channel.marked is not None and barrier.seq == channel.seq(channel.marked)
    give(auto, 3)
    assert (auto.old, auto.spans) == ([(1, 2)], [(3, 3)])
    channel.unmark(settled=False)
    assert auto.old == [(1, 2)] and channel.marked is None
    channel.mark()
    channel.unmark(settled=True)
    assert (auto.old, auto.spans) == ([], [])


def test_consumers_are_found_by_their_session_until_they_end() -> None:
    channel, _ = new_channel()
    one, two, other = consumer(channel, 7), consumer(channel, 8), consumer(channel, 9, session=2)
    assert channel.of_session(1) == [one, two] and channel.of_session(2) == [other] and channel.of_session(3) == []
    channel.end(one)
    channel.end(one)
    assert channel.of_session(1) == [two]
    channel.end(two)
    assert channel.sessions.keys() == {2} and channel.consumers.keys() == {9}


def test_an_answer_is_for_who_asked() -> None:
    channel, _ = new_channel()
    asked, nobody = channel.keep(publish(), 11, 0), channel.keep(publish(), 0, 0)
    done = answer(asked, None)
    assert isinstance(done, Done) and (done.session, done.seq) == (1, 11)
    assert answer(nobody, None) is None
    refused = answer(asked, Refused(0, 0, Code.DISK_FULL, "no room"))
    assert isinstance(refused, Refused) and (refused.session, refused.seq, refused.detail) == (1, 11, "no room")


def test_blocked_addresses_and_bodies_are_taken_once() -> None:
    channel, _ = new_channel()
    channel.blocked[1, "a"] = None
    assert list(channel.take_blocked()) == [(1, "a")] and not list(channel.take_blocked())
    channel.waiting.append(Body())  # type: ignore[arg-type]
    assert len(channel.take_waiting()) == 1 and channel.take_waiting() == []


def test_a_consumer_that_has_messages_is_told_before_a_large_one_that_may_take_long() -> None:
    for large in (False, True):
        channel, _ = new_channel()
        entry = channel.keep(publish(blob=large), 0, 3)
        if large:
            entry.carries(Body())  # type: ignore[arg-type]
        known, fresh = consumer(channel, 7), consumer(channel, 8)
        give(known, 4)
        for each in (known, fresh):
            channel.keep(each.command, 5, 3).concerns(each)
        kinds = [getattr(command, "consumer", type(command)) for command in again(channel)]
        assert kinds == ([Open, 7, Publish, 8, Open] if large else [Open, Publish, 7, 8, Open])


def test_room_waits_for_settlements_of_a_subscription_that_was_not_answered_too() -> None:
    channel, _ = new_channel()
    known = consumer(channel)
    channel.keep(known.command, 5, 3).concerns(known)
    give(known, 4)
    known.set_aside(channel.keep(Settle(SLOT, 1, 0, 7, [4]), 0, 3), [4])
    _, attach, _, room, _ = again(channel)
    assert isinstance(attach, Subscribe) and attach.room == 0 and isinstance(room, Grant) and room.nbytes == 90
