"""Last values, rings, messages that stay, queues that wait; each with what survives a restart."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from broker.core.commands import Publish
from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.engine.state.slot import EXPIRED

from .test_declarations import configure
from .world import ANYCAST, CLIENT, INDIVIDUAL, MULTICAST, World, got, ids, run_of, whole

KEY = "_AMQ_LVQ_NAME"


def value(key: str, body: str) -> bytes:
    return f"{KEY}:{key}\n\n{body}\0".encode()


def bodies(effects: list, consumer: int | None = None) -> list[str]:
    return [record.split(b"\n\n")[-1].rstrip(b"\0").decode() for record in got(effects, consumer)]


def world(**kinds: object) -> World:
    return World(**kinds)


def on_disk(w: World) -> int:
    """Durable messages of the log that are not settled; each is settled once."""
    kept, gone = set(), []
    for _, record in w.log:
        if isinstance(record, RunRecord) and not record.run.flags & TRANSIENT:
            kept.update(record.run.ids)
        elif isinstance(record, SettleRecord) and record.durable:
            gone += [i for first, last in record.spans for i in range(first, last + 1)]
    assert len(gone) == len(set(gone)), "settled twice"
    return len(kept.difference(gone))


# ── last value ─────────────────────────────────────────────────────────────────────────────────────


def _spy(looked: list[int], original):
    def called(queue, store, *more):
        looked.append(len(store))
        original(queue, store, *more)

    return called


plans = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=4)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("nack"), st.integers(1, 3)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=25,
)


# ── rings ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_ring_keeps_the_newest():
    w = world(ring_size=3)
    w.publish("q", *[b"\n\n%d\0" % n for n in range(10)], durable=True)
    w.publish("q", b"\n\nurgent\0", durable=True, priority=9)
    assert w.queue()["ready"] == 3
    w.restart()
    w.settle_down()
    assert sorted(bodies(w.subscribe(1)) or bodies(w.effects)) == ["8", "9", "urgent"]


def test_what_somebody_holds_does_not_count_and_what_comes_back_may_be_too_old():
    w = world(ring_size=2)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    w.publish("q", *[b"\n\n%d\0" % n for n in range(4)])
    assert w.queue()["ready"] == 2 and w.queue()["delivering"] == 2
    w.disconnect(1)
    assert bodies(w.subscribe(2)) == ["2", "3"]


def test_a_ring_larger_than_memory_does_not_grow():
    w = world(ring_size=50, queue_memory_bytes=500, page_bytes=200)
    for n in range(300):
        w.publish("q", b"\n\n%d\0" % n, durable=True)
    assert w.queue()["ready"] + w.queue()["paged"] == on_disk(w) == 50
    w.subscribe(1)
    w.settle_down()
    assert bodies(w.effects) == [str(n) for n in range(250, 300)]


def test_a_ring_may_be_bounded_by_bytes():
    w = world(ring_bytes=20)
    w.publish("q", *[b"\n\n%06d\0" % n for n in range(10)], durable=True)
    assert w.queue()["ready"] == on_disk(w) == 2, "of nine bytes each"
    w.publish("q", b"\n\n%02d\0" % 10, durable=True)
    w.restart()
    w.settle_down()
    assert bodies(w.subscribe(1)) == ["000009", "10"] or bodies(w.effects) == ["000009", "10"]
    w.publish("q", b"\n\n" + b"x" * 30 + b"\0")
    assert w.queue()["ready"] == 0, "nothing is kept that is larger than the bound"


def test_a_ring_of_bytes_larger_than_memory_does_not_grow():
    w = world(ring_bytes=1200, queue_memory_bytes=500, page_bytes=200)
    for n in range(300):
        w.publish("q", b"\n\n%03d\0" % n, durable=True)
    assert w.queue()["ready"] + w.queue()["paged"] == on_disk(w) == 200
    w.subscribe(1)
    w.settle_down()
    assert bodies(w.effects) == [f"{n:03}" for n in range(100, 300)]


@pytest.mark.parametrize("kind", [{"ring_size": 2}, {"ring_bytes": 8}])
@pytest.mark.parametrize("durable", [True, False])
def test_what_a_ring_drops_may_be_a_dead_letter(kind, durable):
    w = world(addresses={"q": {**kind, "ring_dead_letters": True}})
    for n in range(5):
        w.publish("q", b"\n\n%d\0" % n, durable=durable)
    assert (w.queue()["ready"], w.queue("DLQ")["ready"]) == (2, 3)
    w.subscribe(1, "DLQ")
    letters = whole(w.effects)
    assert [letter[-2:] for letter in letters] == [b"0\0", b"1\0", b"2\0"]
    assert all(b"dead-letter-reason:maxlen\n" in letter and b"_AMQ_ORIG_ADDRESS:q\n" in letter for letter in letters)
    assert w.engine.counters()["dead_lettered"] == 3 and w.engine.counters()["replaced"] == 0


def test_rings_that_are_each_others_dead_letters_do_not_go_round():
    ring = {"ring_size": 1, "ring_dead_letters": True}
    w = world(addresses={"a": {**ring, "dead_letter_address": "b"}, "b": {**ring, "dead_letter_address": "a"},
                         "c": {**ring, "dead_letter_address": "c"}})  # fmt: skip
    for name in ("a", "c"):
        for n in range(4):
            w.publish(name, b"\n\n%d\0" % n, durable=True)
    assert (w.queue("a")["ready"], w.queue("b")["ready"], w.queue("c")["ready"]) == (1, 1, 1)
    assert on_disk(w) == 3


def dropped(w: World) -> int:
    return w.engine.counters()["replaced"] + w.engine.counters()["dead_lettered"]


@pytest.mark.parametrize("letters", [False, True])
@pytest.mark.parametrize("durable", [True, False])
def test_one_message_pushes_out_many_piece_by_piece_and_nobody_has_to_send_for_the_rest(letters, durable):
    w = world(addresses={"q": {"ring_bytes": 20_000, "ring_dead_letters": letters}}, auto_commit=False)
    w.do(*[Publish(7, 0, 0, "q", ANYCAST, run_of(b"\n\n%06d\0" % n, durable=durable)) for n in range(2000)])
    w.commit()
    w.in_pieces = True
    left = [w.queue()["ready"]]
    w.publish("q", b"\n\n%b\0" % (b"x" * 19_900), durable=durable)
    for _ in range(20):
        left.append(w.queue()["ready"])
        w.commit()
    assert left[-1] == 11 and len(set(left)) > 4
    assert max(one - other for one, other in itertools.pairwise(left)) <= EXPIRED + 1
    assert dropped(w) == 1990 and w.engine._slot.queues[1].nbytes <= 20_000
    assert on_disk(w) == (11 + 1990 * letters if durable else 0)


@pytest.mark.parametrize("letters", [False, True])
def test_a_ring_that_is_flooded_meanwhile_gets_no_longer(letters):
    w = world(addresses={"q": {"ring_size": 2000, "ring_dead_letters": letters}})
    for n in range(2000):
        w.publish("q", b"%d" % n)
    w.in_pieces = True
    configure(w, addresses={"q": {"ring_size": 100, "ring_dead_letters": letters}})
    longest = []
    for _ in range(20):
        w.do(*[Publish(7, 0, 0, "q", ANYCAST, run_of(b"%d" % n)) for n in range(400)])
        w.settle_down()
        longest.append(w.queue()["ready"])
    assert max(longest) <= 2000 and longest == sorted(longest, reverse=True) and longest[-1] == 100


# ── messages that stay ─────────────────────────────────────────────────────────────────────────────


# ── queues that wait ───────────────────────────────────────────────────────────────────────────────


def test_a_paused_queue_takes_messages_and_keeps_them():
    w = world(paused=True)
    w.subscribe(1)
    assert got(w.publish("q", b"x", durable=True)) == []
    configure(w, address=replace(w.settings.address, paused=False))
    assert got(w.effects, 1) == [b"x"]


def test_consumers_wait_for_each_other_or_for_the_delay():
    w = world(consumers_before_dispatch=2)
    w.publish("q", b"1", b"2")
    assert got(w.subscribe(1)) == []
    assert sorted(got(w.subscribe(2))) == [b"1", b"2"]
    w.unsubscribe(1)
    assert got(w.publish("q", b"3")) == [b"3"]  # once begun it goes on while somebody is there
    w.unsubscribe(2)
    w.publish("q", b"4")
    assert got(w.subscribe(3)) == []
    late = world(consumers_before_dispatch=2, delay_before_dispatch_ms=500)
    late.publish("q", b"1")
    late.subscribe(1)
    assert got(late.tick(400)) == []
    assert got(late.tick(200)) == [b"1"]


def test_a_queue_without_consumers_is_emptied_and_takes_nothing():
    w = world(purge_on_no_consumers=True, auto_delete=False)
    assert got(w.publish("q", b"nobody")) == []
    w.subscribe(1, ack=CLIENT, credit_messages=1)
    w.publish("q", b"1", b"2", b"3", durable=True)
    w.unsubscribe(1)
    assert w.queue()["ready"] == 0
    w.commit()
    w.restart()
    w.settle_down()
    assert got(w.subscribe(2)) == [] and got(w.effects, 2) == []
    assert got(w.publish("q", b"4")) == [b"4"]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("also", [{}, {"last_value": True}, {"max_size_messages": 5, "full_policy": "FAIL"}])
def test_the_message_that_makes_a_queue_without_consumers_is_not_kept_either(durable, also):
    w = world(purge_on_no_consumers=True, auto_delete=False, **also)
    w.publish("q", value("k", "1"), durable=durable)
    assert w.queue()["ready"] + w.queue()["paged"] == 0
    assert got(w.subscribe(1)) == []
    assert len(got(w.publish("q", value("k", "2"), durable=durable))) == 1


def test_a_subscription_is_emptied_in_one_record_of_the_log() -> None:
    w = World(purge_on_no_consumers=True)
    w.subscribe(1, "t", routing=MULTICAST, queue="c.s", durable=True, ack=CLIENT)
    w.publish("t", b"a", routing=MULTICAST, durable=True)
    w.appended.clear()
    w.unsubscribe(1)
    [emptied] = [record.records for record in w.appended if isinstance(record, GroupRecord)]
    assert [record.kind for record in emptied if isinstance(record, MetaRecord)] == ["unqueue", "queue"]
    w.commit()
    w.restart()
    assert w.queue("c.s")["paged"] == w.queue("c.s")["ready"] == 0


def test_what_an_address_keeps_for_later_queues_does_not_fill_one_that_was_emptied():
    w = world(purge_on_no_consumers=True, retroactive_messages=5, auto_delete=False)
    durable = {"queue": "me.n", "durable": True, "routing": MULTICAST}
    w.subscribe(1, "t", **durable)
    w.publish("t", b"\n\n1\0", routing=MULTICAST, durable=True)
    w.subscribe(2, "t", ack=CLIENT, credit_messages=1, **durable)
    w.publish("t", b"\n\n2\0", b"\n\n3\0", b"\n\n4\0", routing=MULTICAST, durable=True)
    w.disconnect(1)
    w.disconnect(2)
    assert w.queue("me.n")["ready"] == 0


def test_a_topics_queues_have_the_kind_of_their_address():
    w = world(last_value=True)
    w.subscribe(1, "t", routing=MULTICAST, ack=INDIVIDUAL, credit_messages=1)
    w.publish("t", value("k", "1"), value("k", "2"), value("k", "3"), routing=MULTICAST)
    w.settle(1, ids(w.effects, 1)[0])
    assert bodies(w.effects, 1) == ["1", "3"]
