"""Commands are values: whose times count, what a copy shares, and what a command keeps for itself."""

from __future__ import annotations

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import BLOCK, Publish, Resume, Settle, Subscribe, SubscribeAll
from broker.core.ids import SLOTS
from broker.core.message import Run


def publish(ttl: int = 0, delay: int = 0, expires: int = 0, due: int = 0) -> Publish:
    command = Publish(7, 1, 2, "a", Routing.ANYCAST, Run((), b"", [b"x"], 1, 0))
    command.run.expires_at(expires)
    command.run.due_at(due)
    command.lasts(ttl, delay)
    return command


def times(command: Publish) -> tuple[int, int, int, int]:
    return command.ttl, command.delay, command.run.expires, command.run.due


def test_lengths_are_added_to_the_clock_of_the_owner_and_once():
    command = publish(ttl=100, delay=20)
    command.arrive(1000, ahead=5)
    assert times(command) == (0, 0, 1100, 1020)
    command.arrive(5000)
    assert times(command) == (0, 0, 1100, 1020), "a command that is tried again lives no longer"


def test_moments_are_moved_by_what_the_clock_of_the_edge_is_off():
    command = publish(expires=1100, due=1020)
    command.arrive(1000)
    assert times(command) == (0, 0, 1100, 1020)
    command.arrive(1000, ahead=7)
    assert times(command) == (0, 0, 1107, 1027)
    never = publish()
    never.arrive(1000, ahead=7)
    assert times(never) == (0, 0, 0, 0), "what never ends does not end because of a clock"


def test_an_edge_says_lengths_and_for_owners_of_before_moments_too():
    command = publish()
    command.lives(100, 20, 0, 1000)
    assert times(command) == (100, 20, 1100, 1020)
    command = publish()
    command.lives(0, 20, 1500, 1000)
    assert times(command) == (0, 0, 0, 1500), "a moment counts before a length"


def test_what_it_waited_is_part_of_its_times_and_does_not_make_them_endless():
    command = publish(ttl=100, delay=20)
    command.waited(30)
    assert (command.ttl, command.delay) == (70, 1)
    command.waited(1000)
    assert (command.ttl, command.delay) == (1, 1), "0 would mean: for ever, at once"
    command = publish()
    command.waited(30)
    assert (command.ttl, command.delay) == (0, 0)


def test_a_part_of_a_transaction_is_not_seen_before_it():
    assert publish().atomic is False
    assert publish().within().atomic is True


def subscribe(**more) -> Subscribe:
    return Subscribe(3, 1, 9, 512, "a.#", Routing.MULTICAST, AckMode.CLIENT, **more)


def test_a_subscription_to_all_slots_has_one_consumer_in_each():
    wide = SubscribeAll(subscribe(credit_messages=5).as_model(512))
    parts = list(wide.parts())
    assert [(part.slot, part.consumer) for part in parts] == [(slot, 512 + slot) for slot in range(SLOTS)]
    assert SLOTS <= BLOCK and {part.credit_messages for part in parts} == {5}
    assert (wide.model.slot, wide.model.consumer) == (0, 512), "the model stays what it was"


def test_a_model_is_asked_by_nobody_and_resumes_nothing():
    command = subscribe()
    command.resumes(Resume([(1, 2)], []))
    model = command.as_model(256)
    assert (model.slot, model.seq, model.consumer, model.resume) == (0, 0, 256, None)
    assert (command.slot, command.seq, command.consumer) == (3, 9, 512) and command.resume is not None


def test_attached_again_it_may_make_what_is_gone_only_when_it_is_told_so():
    command = subscribe(selector="a = 1", room=77)
    again = command.attach_again(12, False, 5)
    assert (again.seq, again.create, again.room, again.selector) == (12, False, 5, "a = 1")
    assert (command.seq, command.create, command.room) == (9, True, 77)


def test_who_waits_has_no_room_and_an_edge_settles_both_kinds_or_none():
    command = subscribe(room=77)
    command.wait()
    assert command.room == 0
    for yes in (True, False):
        command.settle_by_edge(yes)
        assert (command.confirm, command.bodies) == (yes, yes)
    command.settle_by(True, False)
    assert (command.confirm, command.bodies) == (True, False)


def test_what_is_added_to_a_settle_of_its_own_is_added_to_nothing_else():
    shared = [1, 2]
    command = Settle(7, 1, 0, 4, shared)
    command.own()
    command.ids.append(3)
    assert shared == [1, 2] and command.ids == [1, 2, 3]
    assert (command.outcome, command.delay) == (Outcome.ACK, -1)


def test_what_a_resume_does_not_say_is_empty_and_its_own():
    one, other = Resume([], []), Resume([], [])
    one.tries[1] = 2
    one.firm.append((1, 1))
    assert (other.tries, other.firm) == ({}, [])
    assert Resume([(1, 3)], [(4, 4)], {1: 2}, [(2, 2)]).firm == [(2, 2)]
