"""Two-phase parts: unseen until decided, carried out whole, over restarts, whoever is gone meanwhile."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Decide, Disconnect, Hold, Prepare, Publish, Settle, Unsubscribe
from broker.core.errors import Code
from broker.core.message import DURABLE
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.engine.messages.runs import copy
from broker.engine.queue.large_returns import BACK

from .world import ANYCAST, CLIENT, INDIVIDUAL, MULTICAST, UNSET, World, again, done, got, ids, refused, run_of

EPOCH = 1 << 40


def send(*bodies, address="q", durable=True, routing=ANYCAST, priority=4, create=True):
    return Publish(7, 1, 0, address, routing, run_of(*bodies, durable=durable, priority=priority), None, create)


def prepare(world, *parts, tx="t1", seq=1):
    return world.do(Prepare(7, 50, seq, tx, 99, list(parts)))


def decide(world, commit=True, tx="t1", seq=2):
    return world.do(Decide(7, 50, seq, tx, commit))


def fail_over(world, snapshot=False):
    while world.log and world.log[-1][0] > world.committed:
        world.commit()
    if snapshot:
        world.log = [(0, r) for r in world.engine.snapshot()] + [
            (n, r) for n, r in world.log if not isinstance(r, MetaRecord)
        ]
    world.auto_commit = False
    world.restart(first_id=EPOCH)
    world.auto_commit = True


def drained(world, address="q", **more):
    world.effects.clear()
    world.subscribe(99, address, **more)
    world.settle_down()
    return got(world.effects, 99)


LEADERS = pytest.mark.parametrize("leader", ["old", "new", "new, from a snapshot"])


def change(world, leader):
    if leader != "old":
        fail_over(world, leader != "new")


@LEADERS
@pytest.mark.parametrize("calm", [True, False])
def test_what_is_given_back_for_a_full_disk_is_no_attempt(leader, calm):
    world = World(max_delivery_attempts=1)  # no address for dead letters: they are dropped
    world.attach(1, ack=INDIVIDUAL)
    world.do(send(b"a"))
    (i,) = ids(world.effects, 1)
    prepare(world, Settle(7, 1, 0, 1, [i], Outcome.ACK))
    change(world, leader)
    world.do(Disconnect(7, 1, calm=True))
    world.do(Decide(7, 50, 2, "t1", False, calm))
    world.settle_down()
    assert drained(world) == ([b"a"] if calm else [])


@LEADERS
def test_what_is_prepared_is_seen_at_the_commit_and_not_before(leader):
    world = World()
    world.attach(1)
    parts = [send(b"a", b"b"), send(b"c", durable=False), send(b"d", address="other"), send(b"e", priority=9)]
    prepare(world, *parts)
    assert done(world.effects) == [1] and got(world.effects) == []
    assert {s["name"]: s["ready"] + s["paged"] for s in world.stats()} == {"q": 0}
    change(world, leader)
    decide(world)
    world.settle_down()
    assert 2 in done(world.effects)
    if leader == "old":
        assert got(world.effects, 1) == [b"e", b"a", b"b", b"c"]
        flags = [r.run.flags & DURABLE for _, r in world.log if isinstance(r, RunRecord) and r.address != "$tx"]
        assert flags == [DURABLE] * 3, "what was sent without persistence is not logged as its queue's"
    else:
        assert drained(world) == [b"e", b"a", b"b", b"c"]
        assert not any(marked for *_, marked in again(world.effects))
    assert drained(world, "other") == [b"d"]
    assert not [q for q in world.engine._slot.queues.values() if q.hidden]


@LEADERS
def test_an_abort_leaves_nothing(leader):
    world = World()
    prepare(world, send(b"a"))
    change(world, leader)
    decide(world, commit=False)
    assert 2 in done(world.effects)
    world.commit()
    world.restart()
    assert world.stats() == [] and world.engine._slot.queues == {} and world.engine.in_doubt(1 << 50) == []


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_is_one_group_and_told_when_it_is_durable(commit):
    world = World(auto_commit=False)
    world.attach(1, ack=INDIVIDUAL)
    world.publish("q", b"x", durable=True)
    world.commit()
    (i,) = ids(world.effects)
    world.appended.clear()
    assert done(prepare(world, send(b"a", address="z"), Settle(7, 1, 0, 1, [i]))) == []
    (group,) = world.appended
    assert [r.kind for r in group.records if isinstance(r, MetaRecord)] == ["queue", "prepared"]
    assert done(world.commit()) == [1]
    world.appended.clear()
    assert done(decide(world, commit)) == []
    (group,) = world.appended
    assert isinstance(group, GroupRecord)
    kinds = {r.kind for r in group.records if isinstance(r, MetaRecord)}
    assert kinds == ({"queue", "unqueue", "unprepared"} if commit else {"count", "unqueue", "unprepared"})
    settled = [r.spans for r in group.records if isinstance(r, SettleRecord)]
    assert ([(i, i)] in settled) is commit
    assert done(world.commit()) == [2]
    assert done(decide(world, commit, seq=3) + world.commit()) == [3], "decided before"


def consumed(leader, outcome, commit, ack=INDIVIDUAL, **more):
    """Messages a, b, c; b settled in a transaction, a held by consumer 1 only."""
    world = World(**more)
    world.attach(1, ack=ack)
    world.publish("q", b"a", b"b", durable=True)
    world.publish("q", b"c", durable=True)
    i = ids(world.effects)
    world.do(Hold(7, 1, 0, 1, [i[1]]))
    prepare(world, Settle(7, 1, 0, 1, [i[1]], outcome))
    assert done(world.effects) == [1]
    change(world, leader)
    if leader != "old":
        assert refused(world.attach(1, [(i[0], i[2])], ack=ack)) == []
        assert refused(world.do(Hold(7, 1, 0, 1, [i[1]]), Settle(7, 1, 0, 1, [i[1]], Outcome.RETURN))) == []
        world.settle_down()
    world.disconnect(1)
    world.settle_down()
    world.effects.clear()
    world.subscribe(2, ack=INDIVIDUAL)
    world.settle_down()
    before = got(world.effects)
    decide(world, commit)
    world.settle_down()
    return before, got(world.effects)[len(before) :], world


@LEADERS
@pytest.mark.parametrize(
    ("outcome", "commit", "back"),
    [(Outcome.ACK, True, []), (Outcome.ACK, False, [b"b"]), (Outcome.NACK, True, [b"b"]), (Outcome.REJECT, True, [])],
)
def test_what_is_settled_in_it_stays_out_of_sight_until_then(leader, outcome, commit, back):
    before, after, world = consumed(leader, outcome, commit)
    assert (before, after) == ([b"a", b"c"], back)
    if back:
        assert again(world.effects)[-1] == (b"b", 1, True)
    assert world.queue()["delivering"] == 2 + len(back)
    dead = world.queue("DLQ") or {"ready": 0}
    assert dead["ready"] == (outcome is Outcome.REJECT)
    while world.log[-1][0] > world.committed:
        world.commit()
    world.restart()
    world.subscribe(3)
    world.settle_down()
    assert sorted(got(world.effects, 3)) == sorted([b"a", b"c", *back])


@LEADERS
def test_cumulative(leader):
    before, after, _ = consumed(leader, Outcome.ACK, True, ack=CLIENT)
    assert (before, after) == ([b"c"], [])


def test_a_part_that_cannot_be_done_refuses_all_and_keeps_nothing():
    world = World()
    world.attach(1, ack=INDIVIDUAL)
    world.publish("q", b"x", b"y", durable=True)
    i = ids(world.effects)
    world.appended.clear()
    twice = [Settle(7, 1, 0, 1, [i[0]]), Settle(7, 1, 0, 1, [i[0]])]
    for parts, code in (
        ([send(b"a"), Settle(7, 1, 0, 1, [999])], Code.NO_SUCH_DELIVERY),
        ([send(b"a", address="no", create=False)], Code.NOT_ALLOWED),
        (twice, Code.NO_SUCH_DELIVERY),
    ):
        assert refused(prepare(world, *parts)) == [code]
    assert world.appended == [] and world.engine.in_doubt(1 << 50) == []
    assert refused(world.settle(1, *i)) == []


def test_asked_twice_done_once():
    world = World()
    prepare(world, send(b"a"))
    world.appended.clear()
    assert 5 in done(prepare(world, send(b"a"), seq=5) + world.effects) and world.appended == []
    world.do(Decide(7, 50, 6, "t1", True), Decide(7, 50, 7, "t1", True))
    assert {6, 7} <= set(done(world.effects))
    assert drained(world) == [b"a"]


def test_a_prepared_part_can_be_done_whatever_happened_to_its_queues():
    world = World(auto_create=False, addresses={"q": {"auto_create": True}})
    world.publish("q", b"x", durable=True)
    i = ids(world.subscribe(1, ack=INDIVIDUAL))
    prepare(world, send(b"a"), Settle(7, 1, 0, 1, i))
    prepare(world, send(b"b"), tx="t2")
    world.engine._slot.budget.limit = 0
    world.engine.configure(World(auto_create=False).settings)
    world.subscribe(2, "t", routing=MULTICAST, queue="c.s", durable=True)
    world.disconnect(1)
    world.tick(1)
    assert world.queue()["consumers"] == 0, "the claim keeps it"
    decide(world)
    decide(world, tx="t2")
    world.settle_down()
    assert drained(world) == [b"a", b"b"]


def test_a_commit_that_comes_while_the_messages_are_read_back_waits_for_them():
    world = World(page_bytes=4)
    prepare(world, *[send(b"%03d" % n) for n in range(5)])
    fail_over(world)
    world.auto_commit = False
    assert done(decide(world)) == [] and done(decide(world, commit=False, seq=8)) == []
    world.auto_commit = True
    world.settle_down()
    assert {2, 8} <= set(done(world.effects))
    assert drained(world) == [b"000", b"001", b"002", b"003", b"004"]


def test_who_is_in_doubt():
    world = World()
    prepare(world, send(b"a"))
    assert world.engine.in_doubt(world.now + 999) == []
    assert world.engine.in_doubt(world.now + 1000) == [("t1", 99)]
    fail_over(world)
    assert world.engine.in_doubt(world.now + 999) == []  # the coordinator may have failed over too
    assert world.engine.in_doubt(world.now + 1000) == [("t1", 99)]
    decide(world)
    world.settle_down()
    assert world.engine.in_doubt(1 << 50) == []


def test_parked_messages_do_not_expire_and_can_be_had_by_nobody():
    world = World()
    part = Publish(7, 1, 0, "q", UNSET, run_of(b"a", durable=True, expires=world.now + 5))
    prepare(world, part)
    world.tick(10_000)
    hidden = next(q for q in world.engine._slot.queues.values() if q.hidden)
    assert got(world.subscribe(1, "$tx", queue=hidden.name)) == []
    assert world.engine.counters()["expired"] == 0
    decide(world)
    assert drained(world) == [] and world.engine.counters()["expired"] == 1


def test_what_could_be_made_at_the_prepare_can_be_made_at_the_commit():
    world = World()
    prepare(world, send(b"a", create=False), tx="t0")
    assert refused(world.effects) == [Code.NOT_ALLOWED]
    prepare(world, send(b"a"))
    world.engine.configure(World(auto_create=False).settings)
    decide(world)
    world.settle_down()
    assert world.queue()["ready"] == 1


@LEADERS
def test_what_a_deposed_coordinator_asks_for_late_is_not_prepared_again(leader):
    """Three slots: the transaction is carried out here, and stands as decided until the third has heard: whoever
    prepared it once more would find it decided, and commit it twice."""
    world = World()

    def ask(epoch, seq):
        world.do(Prepare(7, 50, seq, "t1", 99, [send(b"a")], epoch))
        world.settle_down()

    ask(1, 1)
    ask(2, 2)  # the next leader of slot 99, to whom the COMMIT was replayed
    decide(world, seq=3)
    world.settle_down()
    change(world, leader)
    world.effects.clear()
    ask(1, 4)
    assert refused(world.effects) == [Code.OWNER_MOVED]
    world.do(Prepare(7, 50, 5, "t2", 98, [send(b"b")], 1))  # another slot's leader
    world.settle_down()
    assert done(world.effects) == [5]
    assert drained(world) == [b"a"]


class Counted(dict):
    """Counts the entries that somebody walks over."""

    walked = 0

    def values(self):
        self.walked += len(self)
        return super().values()

    def items(self):
        self.walked += len(self)
        return super().items()

    def __iter__(self):
        self.walked += len(self)
        return super().__iter__()


def test_what_is_read_back_for_one_transaction_walks_over_no_other():
    """Behind a restart each of thousands in doubt is read back by itself: walks would be the square of their number."""
    world = World()
    for n in range(40):
        prepare(world, send(b"%d" % n), tx=f"t{n}", seq=n + 1)
    fail_over(world)
    slot = world.engine._slot
    slot.prepared = Counted(slot.prepared)
    for n in range(40):
        decide(world, tx=f"t{n}", seq=100 + n)
    world.settle_down()
    assert not slot.prepared and sorted(drained(world)) == sorted(b"%d" % n for n in range(40))
    assert slot.prepared.walked == 0


@pytest.mark.parametrize(("count", "pieces"), [(50, 0), (500, 4)])
def test_what_had_to_be_read_back_is_carried_out_in_pieces(count, pieces):
    """1,000 parts were published at the end of a turn of many queues, all at once."""
    world = World()
    prepare(world, *[send(b"%d" % n, address=f"q{n}") for n in range(count)])
    fail_over(world)
    decide(world)
    world.settle_down()
    assert world.pieces >= pieces and bool(world.pieces) == bool(pieces)
    assert [drained(world, f"q{n}") for n in (0, count - 1)] == [[b"0"], [b"%d" % (count - 1)]]
    assert world.engine._slot.prepared == {}


# ── dead letters of what was decided ───────────────────────────────────────────────────────────────

MANY = 3 * BACK
LETTERS = {"dead_letter_address": "dead", "max_delivery_attempts": 1}
SUB = {"ack": CLIENT, "routing": MULTICAST, "address": "t", "queue": "sub", "durable": True}


def rejected(many=MANY, outcome=Outcome.REJECT, unread=False, **settings):
    """A decided transaction that rejects so many of subscription `sub`, whose letters are on their way to another
    owner; its decision has the number 5. unread: its leader knew their numbers only."""
    world = World(addresses={"t": LETTERS | settings})
    world.subscribe(1, **SUB)
    for n in range(many):
        world.publish("t", b"%d" % n, durable=True, routing=MULTICAST)
    held = list(world.engine.shown.consumers[1].ledger)
    prepare(world, Settle(7, 1, 0, 1, [held[-1]], outcome))
    world.settle_down()
    if unread:
        fail_over(world)
        while world.fetches:
            world.serve()
    world.auto_commit = False
    world.effects.clear()
    return world, held, sent_away(world, Decide(7, 50, 5, "t1", True))


def sent_away(world, *commands):
    """The moves that come of these."""
    turn, away = world.turn(), []
    for command in commands:
        world.engine.handle(command, turn)
    while True:
        world.engine.flush(turn)
        away += turn.take_moves()
        world.finish(turn)
        if world.fetches:
            fetch = world.fetches.pop(0)
            turn = world.turn()
            world.engine.fetched(fetch.queue, [copy(world.runs[place]) for place in fetch.positions], turn)
        elif world.engine.pending or world.engine.unfinished:
            world.committed, turn = world.open, world.turn()
            world.open += 1
            world.engine.release(world.committed, turn)
        else:
            return away


def arrive(world, moves):
    for move in moves:
        turn = world.turn()
        world.engine.moved(move, turn)
        world.finish(turn)
    world.settle_down()


def dead(world):
    queue = world.queue("dead") or {"ready": 0, "paged": 0}
    return queue["ready"] + queue["paged"]


@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
@pytest.mark.parametrize("many", [1, MANY])
@pytest.mark.parametrize("unread", [False, True])
def test_a_decision_is_answered_when_its_dead_letters_are_where_they_go(many, outcome, unread):
    """It was answered when it counted: an owner that died then had told success, and its messages came again."""
    world, _, away = rejected(many, outcome, unread)
    assert sum(len(move.ids) for move in away) == many and done(world.effects) == []
    decide(world, seq=6)
    arrive(world, away[1:])
    assert done(world.effects) == [] and world.engine.in_doubt(1 << 50) == []
    arrive(world, away[:1])
    assert sorted(done(world.effects)) == [5, 6] and not world.engine.shown.prepared
    world.committed = world.open
    world.restart(first_id=2 * EPOCH)
    assert not world.engine.shown.prepared and world.queue("sub")["paged"] == 0


@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
@pytest.mark.parametrize("many", [1, MANY])
@pytest.mark.parametrize("leader", ["new", "new, from a snapshot"])
def test_nor_does_the_next_leader_answer_before(many, outcome, leader):
    world, held, away = rejected(many, outcome)
    arrive(world, away[1:])
    change(world, leader)
    world.auto_commit = False
    assert world.engine.in_doubt(1 << 50) == [], "it knows"
    world.attach(1, held=[(held[0], held[-1])], **SUB)
    world.effects.clear()
    rest = sent_away(world, Decide(7, 50, 7, "t1", True))
    assert [i for move in rest for i in move.ids] == [*away[0].ids] and got(world.effects) == done(world.effects) == []
    arrive(world, rest)
    assert done(world.effects) == [7]


def test_what_comes_again_of_it_is_not_claimed_by_the_next_leader():
    """Another consumer may have it by then."""
    world = World(addresses={"t": LETTERS | {"max_delivery_attempts": 2}})
    world.subscribe(1, **SUB)
    world.publish("t", b"once", durable=True, routing=MULTICAST)
    (once,) = world.engine.shown.consumers[1].ledger
    world.settle(1, once, outcome=Outcome.NACK)
    world.publish("t", b"new", durable=True, routing=MULTICAST)
    held = list(world.engine.shown.consumers[1].ledger)
    prepare(world, Settle(7, 1, 0, 1, [held[-1]], Outcome.NACK))
    world.settle_down()
    world.auto_commit = False
    away = sent_away(world, Decide(7, 50, 5, "t1", True))
    assert [i for move in away for i in move.ids] == [once]
    world.do(Settle(7, 1, 0, 1, [held[-1]]))
    fail_over(world)
    world.auto_commit = False
    again = sent_away(world, Decide(7, 50, 7, "t1", True))
    assert [i for move in again for i in move.ids] == [once]
    arrive(world, again)
    assert 7 in done(world.effects) and world.queue("sub")["paged"] == world.queue("sub")["ready"] == 0


@pytest.mark.parametrize("fails_over", [False, True])
@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
def test_its_dead_letters_outlive_their_queue(fails_over, unread, outcome):
    world, _, away = rejected(MANY, outcome, unread)
    if unread:
        world.attach(1, **SUB)
    world.do(Unsubscribe(7, 1, 6, 1, "t", "sub"))
    assert world.queue("sub") is None and 5 not in done(world.effects)
    if fails_over:
        fail_over(world)
        world.settle_down()
        decide(world, seq=7)
        world.settle_down()
        assert dead(world) == MANY and 7 in done(world.effects)
    else:
        arrive(world, away)
        assert 5 in done(world.effects)
    assert not world.engine.shown.prepared and not any(queue.estate for queue in world.engine.queues())


def test_who_nobody_takes_a_letter_of_is_answered():
    world, _, away = rejected(2)
    for move in away:
        turn = world.turn()
        world.engine.waits(move, turn)
        world.finish(turn)
    world.commit()
    assert done(world.effects) == [5] and not world.engine.shown.prepared
