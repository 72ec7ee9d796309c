"""A command that comes again after a fail-over happens once and is answered as it was, whatever became of it."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.errors import Code, RefusedError
from broker.core.records import GroupRecord, RunRecord

from .world import ANYCAST, UNSET, World, done, got, refused, run_of

EDGE = 77


def publish(number: int, body: bytes = b"x", address: str = "q", seq: int = 0, routing=ANYCAST, **more) -> Publish:
    command = Publish(7, 1, seq or number, address, routing, run_of(body, durable=True), None, True, (EDGE, number))
    for name, value in more.items():
        setattr(command, name, value)
    return command


@pytest.fixture
def world() -> World:
    return World()


def closed(number: int, seq: int = 0) -> Publish:
    """To an address that does not exist, and may not be made for it."""
    return publish(number, address="none", seq=seq, create=False)


def test_a_number_happens_once_and_each_try_is_answered(world):
    assert done(world.do(publish(1, b"a"))) == [1]
    assert done(world.do(publish(1, b"a", seq=9))) == [9]
    world.subscribe(5)
    assert got(world.effects) == [b"a"]


def test_a_refusal_is_remembered_with_its_number(world):
    """What was refused may be possible by now: refused again all the same, or two tries of one message would have two
    answers."""
    assert refused(world.do(closed(2))) == [Code.NOT_ALLOWED]
    world.do(publish(3))
    world.subscribe(5, "none")
    again = world.do(closed(2, seq=9))
    assert refused(again) == [Code.NOT_ALLOWED] and done(again) == []


def test_a_refusal_with_nothing_behind_it_may_be_tried_again(world):
    """Nobody can have taken it for the end: it did not come to the log."""
    assert refused(world.do(closed(2))) == [Code.NOT_ALLOWED]
    assert done(world.do(publish(2, seq=9))) == [9]


def test_a_refusal_is_in_the_log_before_what_comes_behind_it(world):
    """Behind it, a crash between the two would make the refused number look like taken."""
    world.do(closed(2))
    world.appended.clear()
    world.do(publish(3))
    (at,) = [n for n, each in enumerate(world.appended) if getattr(each, "kind", "") == "producers"]
    (run,) = [n for n, each in enumerate(world.appended) if type(each) is RunRecord]
    assert at < run and [refusal[:3] for refusal in world.appended[at].data["refused"]] == [[EDGE, 2, "NOT_ALLOWED"]]
    world.restart(first_id=1 << 40)
    assert refused(world.do(closed(2, seq=9))) == [Code.NOT_ALLOWED]
    assert done(world.do(publish(3, seq=10))) == [10]


def test_messages_for_several_queues_stand_in_one_record(world):
    """A part alone in the log would make a replay look like a duplicate."""
    for n in (1, 2):
        world.subscribe(n, "q", queue=f"q{n}")
    world.appended.clear()
    command = publish(1)
    command.run = run_of(b"a", b"b", durable=True)
    world.do(command)
    runs = [part for record in world.appended for part in getattr(record, "records", [record])]
    assert sum(type(part) is RunRecord for part in runs) == 2 and any(
        type(record) is GroupRecord for record in world.appended
    )
    assert not any(type(record) is RunRecord for record in world.appended)


def test_times_count_by_the_clock_of_the_leader(world):
    """Not of the edge: clocks of two edges must not disagree on one queue."""
    world.do(publish(1, ttl=500, delay=0), publish(2, ttl=0, delay=70))
    runs = [record.run for record in world.appended if type(record) is RunRecord]
    assert (runs[0].expires, runs[1].due) == (world.now + 500, world.now + 70)


@pytest.mark.parametrize(("session", "expires"), [(1, 550), (0, 500)])
def test_a_moment_that_a_client_has_named_is_one_of_his_clock(world, session, expires):
    """The owner's runs ahead of the wall; what the broker itself sends on has that in it already."""
    world.ahead = 50
    command = publish(1)
    command.session = session
    command.run.expires_at(world.now + 500)
    world.do(command)
    (run,) = [record.run for record in world.appended if type(record) is RunRecord]
    assert run.expires == world.now + expires


def test_what_the_owner_refuses_is_refused_again(world):
    """A full disk may be empty when the edge asks again."""
    turn, error = world.turn(), RefusedError(Code.DISK_FULL, "full")
    world.engine.refuse(publish(1), error, turn)
    assert refused(world.finish(turn)) == [Code.DISK_FULL]
    world.do(publish(2))
    assert refused(world.do(publish(1, seq=9))) == [Code.DISK_FULL]


def test_what_was_taken_before_is_not_refused_later(world):
    world.do(publish(1))
    turn = world.turn()
    world.engine.refuse(publish(1, seq=9), RefusedError(Code.DISK_FULL, "full"), turn)
    found = world.finish(turn)
    assert (refused(found), done(found)) == ([], [9])


def test_a_command_without_a_number_is_refused_and_forgotten(world):
    command, turn = publish(1), world.turn()
    command.dedup = None
    world.engine.refuse(command, RefusedError(Code.DISK_FULL, "full"), turn)
    assert refused(world.finish(turn)) == [Code.DISK_FULL]
    command = publish(1)
    command.dedup = None
    assert refused(world.do(command)) == []


def test_the_number_of_a_transaction_stands_with_what_it_made(world):
    turn = world.turn()
    world.engine.remember((EDGE, 4), turn)
    (record,) = turn.appends
    assert record.data == {"producers": [[EDGE, 4]], "refused": []}
    world.finish(turn)
    assert world.engine.duplicate((EDGE, 4)) and not world.engine.duplicate((EDGE, 5))


def test_a_try_again_of_what_is_not_durable_is_answered_when_it_is():
    world = World(auto_commit=False)
    world.do(publish(1))
    assert done(world.do(publish(1, seq=9))) == []
    assert sorted(done(world.commit())) == [1, 9]


def test_nothing_is_answered_to_who_did_not_ask(world):
    world.do(publish(1))
    assert done(world.do(Publish(7, 1, 0, "q", UNSET, run_of(b"x", durable=True), None, True, (EDGE, 1)))) == []
