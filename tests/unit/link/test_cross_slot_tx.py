"""Transactions over slots, when leaders change: once, whole, and behind what their session sent."""

from __future__ import annotations

from broker.core.address import AckMode, Routing
from broker.core.commands import (
    Hold,
    Publish,
    Settle,
    Subscribe,
    Transact,
)
from broker.core.effects import Deliver, Done
from tests.unit.link.two import SLOT, TOKEN, Two, bodies, publish
from tests.unit.link.world import run_of


def test_a_session_waits_for_its_own_transaction_over_slots_not_for_an_earlier_one(two):
    two.a.shard.answers = False
    two.submit(Transact(SLOT, 1, 1, [publish()]))
    two.submit(Transact(SLOT, 1, 2, [publish(), publish(slot=6)]))
    inside, over = two.a.shard.of(Transact)
    two.submit(publish(body=b"behind"))
    two.a.effects(Done(inside.session, inside.seq))
    two.world.run()
    assert bodies(two.a.shard) == []
    two.a.effects(Done(over.session, over.seq))
    two.world.run()
    assert bodies(two.a.shard) == [b"behind"]


def test_two_transactions_over_slots_are_numbered_apart(two):
    """One that comes late must not pass for a replay of what has overtaken it."""
    two.a.shard.answers = False
    for session in (1, 2):
        two.submit(Transact(SLOT, session, 5, [publish(session=session), publish(session=session, slot=6)]))
    two.submit(Transact(SLOT, 3, 5, [publish(session=3)]))
    first, second, inside = two.a.shard.of(Transact)
    assert len({first.dedup[0], second.dedup[0], TOKEN}) == 3 and first.dedup[1] == second.dedup[1] == 1
    assert inside.dedup == (TOKEN, 3)
    two.a.effects(Done(second.session, second.seq))
    two.world.run()
    two.submit(Transact(SLOT, 2, 6, [publish(session=2), publish(session=2, slot=6)]))
    assert two.a.shard.of(Transact)[-1].dedup == (second.dedup[0], 2)


def test_a_transaction_over_slots_waits_for_its_holds_elsewhere_and_its_session_for_it():
    two = Two()
    two.lead(two.b, 1, slot=6)
    two.submit(Subscribe(6, 1, 0, 3, "b", Routing.ANYCAST, AckMode.INDIVIDUAL))
    two.b.effects(Deliver(TOKEN << 40 | 3, run_of(b"x", ids=[1]), 1))
    two.world.run()
    two.b.shard.answers = two.a.shard.answers = False
    two.submit(Hold(6, 1, 0, 3, [1]))
    inner = publish(body=b"inside")
    two.submit(Transact(SLOT, 1, 5, [inner, Settle(6, 1, 0, 3, [1])]))
    assert two.submit(publish(0, b"behind"), publish(0, b"there", slot=6))
    two.submit(publish(0, b"other", session=2))
    assert two.a.shard.of(Transact) == [] and bodies(two.a.shard) == [b"other"]
    two.world.cut(0)
    two.world.pass_time(0.1)
    assert two.a.shard.of(Transact) == [], "also not on a new stream"
    (hold,) = two.b.shard.of(Hold)
    two.b.effects(Done(hold.session, hold.seq))
    two.world.run()
    (transact,) = two.a.shard.of(Transact)
    assert bodies(two.b.shard) == []
    two.a.effects(Done(transact.session, transact.seq))
    two.world.run()
    assert bodies(two.a.shard)[-1] == b"behind" and bodies(two.b.shard) == [b"there"]
    assert {1} in two.edge.relieved
    two.b.shard.answers = True
    two.a.server.serve(6, 2)
    two.port.route(6, 2, "a", "a:1")
    two.world.run()
    assert two.a.shard.of(Hold) == [], "its transaction is over"


def test_a_transaction_over_slots_leaves_behind_what_its_session_sent_to_them(two):
    """The cluster's history 195: the Prepare would overtake it."""
    two.lead(two.b, 1, slot=6)
    two.b.shard.answers = False
    two.submit(publish(1, b"before", slot=6), publish(0, b"another's", session=2, slot=6))
    two.submit(Transact(SLOT, 1, 5, [publish(), publish(slot=6)]))
    assert two.a.shard.of(Transact) == []
    (before, _) = two.b.shard.of(Publish)
    two.b.effects(Done(before.session, before.seq))
    two.world.run()
    assert len(two.a.shard.of(Transact)) == 1
