"""A consumer's way in and out: refused without a trace, answered when it counts, and no message before the answer."""

from __future__ import annotations

import pytest

from broker.core.commands import Disconnect, Grant, Subscribe, SubscribeAll, Unsubscribe
from broker.core.effects import Deliver, Done, Turn
from broker.core.errors import Code

from .world import ANYCAST, INDIVIDUAL, MULTICAST, World, again, bodies, done, got, ids, refused


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def slow() -> World:
    """What it writes becomes durable when the test says so."""
    return World(auto_commit=False)


def durable(world: World, consumer: int, name: str = "me.s", address: str = "t", seq: int = 1, **more) -> list:
    return world.subscribe(consumer, address, routing=MULTICAST, queue=name, durable=True, seq=seq, **more)


# ── in ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_selector_that_is_none_leaves_no_queue_behind(world):
    assert refused(world.subscribe(1, "new", selector="a =", seq=3)) == [Code.BAD_SELECTOR]
    assert world.stats() == [] and not world.engine.attached(1)


def test_one_too_many_is_refused_and_its_own_queue_is_not_there(world):
    world = World(addresses={"t": {"max_consumers": 1}})
    durable(world, 1)
    assert refused(durable(world, 2, seq=4)) == [Code.CONSUMER_LIMIT]
    assert not world.engine.attached(2) and len(world.stats()) == 1


def test_a_consumer_that_comes_back_has_its_place(world):
    """An earlier leader counted it: it cannot be one too many."""
    world = World(addresses={"q": {"max_consumers": 1}})
    world.subscribe(1)
    world.restart(first_id=1 << 40)
    world.subscribe(2)
    assert refused(world.attach(1, seq=4)) == [] and world.engine.attached(1)


def test_who_only_looks_is_no_consumer(world):
    world = World(addresses={"q": {"max_consumers": 1}})
    world.publish("q", *bodies(3))
    assert refused(world.subscribe(2, browse=True, seq=4)) == []
    assert refused(world.subscribe(1, ack=INDIVIDUAL, seq=5)) == []
    assert got(world.effects, 2) == bodies(3) == got(world.effects, 1)
    assert refused(world.subscribe(3, browse=True, seq=6)) == []


def test_no_message_comes_before_the_answer(slow):
    """The queue is made by it: a crash could undo that, and the client would hold a message of no queue."""
    assert durable(slow, 1, seq=5) == []
    slow.publish("t", b"a", routing=MULTICAST)
    assert slow.effects == []
    told = slow.commit()
    kinds = [type(effect) for effect in told if isinstance(effect, Done | Deliver)]
    assert kinds == [Done, Deliver] and done(told) == [5]


def test_room_that_is_granted_meanwhile_does_not_begin_it(slow):
    durable(slow, 1, seq=5, room=0)
    slow.publish("t", b"a", routing=MULTICAST)
    slow.grant(1, 1000)
    assert got(slow.effects) == []
    assert got(slow.commit()) == [b"a"]


def test_where_nothing_is_written_the_answer_comes_at_once(slow):
    slow.publish("q", b"x")
    slow.commit()
    assert done(slow.subscribe(1, seq=5)) == [5]


def test_one_that_comes_again_waits_for_what_its_first_try_made(slow):
    """Its queue may not count yet, though this try writes nothing."""
    durable(slow, 1, seq=5)
    assert done(slow.attach(1, address="t", routing=MULTICAST, queue="me.s", durable=True, seq=6)) == []
    assert sorted(done(slow.commit() + slow.commit())) == [5, 6]


def test_who_does_not_ask_is_not_answered(world):
    assert done(world.subscribe(1)) == []


def test_one_that_comes_again_is_one_and_not_two(world):
    """The same consumer number twice would be handed every message twice."""
    world.subscribe(1, ack=INDIVIDUAL)
    world.attach(1, ack=INDIVIDUAL)
    world.publish("q", b"a")
    assert got(world.effects) == [b"a"]


def test_what_it_held_of_a_queue_that_was_made_anew_goes_back_there(world):
    """Its destination means another queue now: what it held belongs to the old one, and is no failure."""
    durable(world, 1, "a.s", ack=INDIVIDUAL)
    world.publish("t", b"a", routing=MULTICAST)
    (held,) = ids(world.effects, 1)
    world.effects.clear()
    world.attach(1, [(held, held)], address="t", routing=MULTICAST, queue="b.s", durable=True, ack=INDIVIDUAL)
    assert got(world.effects, 1) == []
    durable(world, 2, "a.s", ack=INDIVIDUAL)
    assert ids(world.effects, 2) == [held] and [attempts for _, attempts, _ in again(world.effects)] == [0]


def test_a_wildcard_that_is_subscribed_everywhere_sleeps_and_is_answered(world):
    command = SubscribeAll(Subscribe(7, 1, 5, 9, "a.*", MULTICAST, INDIVIDUAL))
    assert done(world.do(command)) == [5] and world.stats() == []


# ── out ──────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_consumer_held_is_for_others_when_it_goes(world):
    world.publish("q", *bodies(3))
    world.subscribe(1, ack=INDIVIDUAL)
    world.subscribe(2, ack=INDIVIDUAL)
    assert done(world.unsubscribe(1, seq=4)) == [4]
    assert got(world.effects, 2) == bodies(3)
    assert {attempts for _, attempts, _ in again(world.effects)} == {0}, "nobody has failed"


@pytest.mark.parametrize(
    ("consumer", "address", "code"), [(2, "t", Code.SUBSCRIPTION_IN_USE), (1, "other", Code.SUBSCRIPTION_CONFLICT)]
)
def test_an_unsubscribe_that_is_refused_ends_nobody(world, consumer, address, code):
    durable(world, 1)
    assert refused(world.unsubscribe(consumer, address=address, delete="me.s")) == [code]
    world.publish("t", b"a", routing=MULTICAST)
    assert got(world.effects, 1) == [b"a"]


def test_a_durable_subscription_goes_with_its_messages(world):
    durable(world, 1, ack=INDIVIDUAL)
    world.publish("t", b"a", routing=MULTICAST)
    assert done(world.unsubscribe(1, seq=4, address="t", delete="me.s")) == [4]
    assert world.queue("me.s") is None
    durable(world, 2)
    assert got(world.effects, 2) == []


def test_a_subscription_without_its_consumer_can_be_deleted(world):
    durable(world, 1)
    world.disconnect(1)
    assert done(world.do(Unsubscribe(7, 3, 4, 0, "t", "me.s"))) == [4]
    assert refused(world.do(Unsubscribe(7, 3, 5, 0, "t", "me.s"))) == [Code.NO_SUCH_SUBSCRIPTION]


def test_nobody_ends_the_consumer_of_another_session(world):
    world.subscribe(1, session=8)
    assert refused(world.unsubscribe(1, session=9, seq=4)) == [Code.NO_SUCH_SUBSCRIPTION]
    world.publish("q", b"a")
    assert got(world.effects, 1) == [b"a"]


def test_that_it_has_ended_already_is_told_when_its_end_counts(slow):
    """To an edge that asks again this means: done."""
    durable(slow, 1)
    slow.commit()
    slow.unsubscribe(1, seq=4, address="t", delete="me.s")
    assert refused(slow.unsubscribe(1, seq=5, address="t", delete="me.s")) == []
    told = slow.commit()
    assert done(told) == [4] and refused(told) == [Code.NO_SUCH_SUBSCRIPTION]


def test_the_answer_comes_behind_those_to_what_it_settled(slow):
    """An edge forgets the consumer with it, and could not tell the next leader of what has to be asked again."""
    slow.publish("q", b"a", durable=True)
    slow.commit()
    slow.subscribe(1, ack=INDIVIDUAL)
    slow.commit()
    (held,) = ids(slow.effects)
    slow.settle(1, held, seq=4)
    assert done(slow.unsubscribe(1, seq=5)) == []
    assert done(slow.commit()) == [4, 5]


def test_a_session_with_many_consumers_ends_some_of_them_a_turn(world):
    for n in range(1, 6):
        world.subscribe(n, f"q{n}", session=8)
    turns = 0
    while world.engine.attached(8):
        turn = Turn(world.now, world.open, most=0)
        world.engine.handle(Disconnect(7, 8), turn)
        world.finish(turn)
        turns += 1
    assert turns > 1
    world.subscribe(9, "q3")
    assert not world.engine.attached(8) and world.engine.attached(9)


# ── room ─────────────────────────────────────────────────────────────────────────────────────────────


def test_room_lets_messages_out_and_none_for_a_consumer_that_is_gone(world):
    world.publish("q", *bodies(3))
    world.subscribe(1, room=0)
    assert got(world.effects) == []
    world.grant(1, 1000)
    assert got(world.effects) == bodies(3)
    world.unsubscribe(1)
    world.grant(1, 1000)
    world.subscribe(2, routing=ANYCAST, room=0)
    world.publish("q", b"x")
    assert got(world.effects, 2) == []


def test_a_browser_goes_on_when_it_has_room(world):
    world.publish("q", *bodies(3))
    world.subscribe(1, browse=True, room=1)
    first = len(got(world.effects, 1))
    world.grant(1, 1000)
    assert first < 3 and got(world.effects, 1) == bodies(3)


def test_who_comes_back_is_answered_at_once_where_nothing_waits_for_the_log(slow):
    slow.publish("q", b"a", durable=True)
    slow.commit()
    assert done(slow.attach(1, seq=7)) == [7]


def test_room_that_is_granted_has_only_those_looked_at_who_may_get_something(world):
    world.subscribe(1, ack=INDIVIDUAL)
    slot = world.engine._slot
    turn = Turn(0, 1)
    world.engine.handle(Grant(0, 1, 10), turn)
    assert not slot.touched
    slot.touched.clear()
    world.publish("q", *bodies(3))
    world.engine.handle(Grant(0, 1, 10), turn)
    assert not slot.touched, "it has everything"
