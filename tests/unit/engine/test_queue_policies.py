"""Last values, rings, messages that stay, queues that wait; each with what survives a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.address import Outcome
from broker.core.commands import Publish, Settle
from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.engine.dispatch import non_destructive, queue_policies

from .test_declarations import configure
from .world import ANYCAST, AUTO, CLIENT, INDIVIDUAL, MULTICAST, World, again, got, ids, run_of

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


@pytest.mark.parametrize("durable", [True, False])
def test_only_the_newest_of_each_key_waits(durable):
    w = world(last_value=True)
    w.publish("q", value("a", "1"), value("b", "2"), value("a", "3"), b"\nplain\0", durable=durable)
    w.publish("q", value("b", "4"), b"\nplain\0", durable=durable)
    assert w.queue()["ready"] == 4
    assert bodies(w.subscribe(1)) == ["3", "\nplain", "4", "\nplain"]


def test_one_message_in_flight_and_then_the_newest():
    w = world(last_value=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    first = w.publish("q", *[value("k", str(n)) for n in range(1, 101)])
    assert bodies(first) == ["1"] and w.queue()["ready"] == 1
    assert bodies(w.settle(1, first[0].run.ids[0])) == ["100"]


def test_values_are_replaced_while_their_bodies_are_paged_out():
    w = world(last_value=True, queue_memory_bytes=400, page_bytes=100)
    for n in range(6):
        w.publish("q", *[value(f"key{k}", f"{n}" * 20) for k in range(40)], durable=True)
    assert on_disk(w) == 40
    w.subscribe(1)
    w.settle_down()
    assert bodies(w.effects, 1).count("5" * 20) == 40 and on_disk(w) == 0


def test_a_part_of_a_page_is_replaced_before_it_is_read_back():
    w = world(last_value=True, queue_memory_bytes=400, page_bytes=100)
    w.publish("q", value("z", "z" * 500), durable=True)
    w.publish("q", value("a", "1"), value("b", "2"), durable=True)
    w.publish("q", value("a", "3"), durable=True)
    assert w.queue()["paged"] and on_disk(w) == 3
    w.subscribe(1)
    w.settle_down()
    assert bodies(w.effects, 1)[1:] == ["2", "3"] and on_disk(w) == 0


def test_what_rested_is_not_handed_out_beside_what_replaces_it():
    w = world(last_value=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    first = w.publish("q", value("k", "1"))[0].run.ids[0]
    w.publish("q", value("k", "2"))
    w.do(
        Settle(7, 1, 0, 1, [first], Outcome.ACK),
        Publish(7, 9, 0, "q", ANYCAST, run_of(value("k", "3"))),
    )
    assert bodies(w.effects, 1) == ["1", "3"] and w.queue()["ready"] == 0


def test_a_returned_message_that_was_replaced_meanwhile_is_gone():
    w = world(last_value=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    w.publish("q", value("k", "old"), durable=True)
    w.publish("q", value("k", "new"), durable=True)
    w.disconnect(1)
    assert bodies(w.subscribe(2)) == ["new"]
    w.commit()
    w.restart()
    assert w.queue() is None or w.queue()["ready"] + w.queue()["paged"] == 0


def test_a_key_of_the_users_own():
    w = world(last_value_key="stock")
    w.publish("q", b"stock:x\n\n1\0", b"stock:x\n\n2\0", value("k", "3"), value("k", "4"))
    assert bodies(w.subscribe(1)) == ["2", "3", "4"]


def test_what_was_replaced_does_not_come_back_after_a_crash():
    w = world(last_value=True)
    for n in range(10):
        w.publish("q", value(str(n % 2), str(n)), durable=True)
    w.restart()
    w.settle_down()
    assert bodies(w.subscribe(1)) == ["8", "9"] or bodies(w.effects) == ["8", "9"]


@pytest.mark.parametrize("kind", [{}, {"non_destructive": True}])
@pytest.mark.parametrize("configured", [False, True])
def test_more_keys_than_memory_and_a_crash_before_their_old_values_were_settled(kind, configured):
    w = world(last_value=True, queue_memory_bytes=400, page_bytes=100, **kind)
    w.publish("q", value("free", "x" * 300))
    for k in range(40):
        w.publish("q", value(f"key{k}", "old" * 20), durable=True)
    w.auto_commit = False
    for k in range(40):
        w.publish("q", value(f"key{k}", "new" * 20), durable=True)
    w.commit()  # the values, not what they have replaced
    w.auto_commit = True
    w.restart()
    if configured:
        w.engine.configure(w.settings)
    w.settle_down()
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=7)
    for _ in range(40):
        w.settle(1, *w.engine._slot.consumers[1].ledger)
    assert bodies(w.effects, 1) == ["new" * 20] * 40


@pytest.mark.parametrize("kind", [{}, {"non_destructive": True}])
def test_what_comes_out_of_the_schedule_unseen_replaces_what_rests(kind):
    w = world(last_value=True, queue_memory_bytes=400, page_bytes=100, **kind)
    for k in range(20):
        w.publish("q", value(f"key{k}", "old" * 20), durable=True)
    for k in range(20):
        run = run_of(value(f"key{k}", "new" * 20), durable=True)
        run.due = w.now + 1000
        w.do(Publish(7, 1, 0, "q", ANYCAST, run))
    w.auto_commit = False  # its pages are being read when somebody comes
    w.tick(2000)
    w.commit()
    w.auto_commit = True
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=7)
    for _ in range(20):
        w.settle(1, *w.engine._slot.consumers[1].ledger)
    assert bodies(w.effects, 1) == ["new" * 20] * 20


def test_what_was_read_ahead_for_a_consumer_is_not_handed_out_when_it_has_been_replaced():
    w = world(last_value=True, non_destructive=True, queue_memory_bytes=400, page_bytes=1000)
    w.publish("q", *[b"\n" + b"x" * 100 + b"\0"] * 4, durable=True)  # stay in memory for ever
    for k in range(20):
        w.publish("q", value(f"key{k}", "old" * 20), durable=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=9)
    assert w.engine._slot.queues[1].kind.cursors._places[1].feed
    w.effects.clear()
    for k in range(20):
        w.publish("q", value(f"key{k}", "new" * 20), durable=True)
    for _ in range(20):
        w.settle(1, *w.engine._slot.consumers[1].ledger)
    assert bodies(w.effects, 1) == ["new" * 20] * 20


def test_a_million_updates_of_few_keys_need_no_room():
    w = world(last_value=True, queue_memory_bytes=2000, page_bytes=500)
    for n in range(300):
        w.publish("q", *[value(str(k), f"{n}-{k}" * 10) for k in range(10)], durable=True)
    assert w.queue()["ready"] + w.queue()["paged"] == on_disk(w) == 10
    assert len(w.engine._slot.queues[1].kind.last_value._newest) == 10


@pytest.mark.parametrize("stay", [False, True])
def test_one_value_among_many_is_replaced_without_a_look_at_all_of_them(stay: bool, monkeypatch) -> None:
    w = world(last_value=True, non_destructive=stay)
    for n in range(400):
        w.publish("q", value(f"k{n}", f"a{n}"))
    if stay:
        w.subscribe(1)
    looked: list[int] = []
    monkeypatch.setattr(queue_policies, "_filter", _spy(looked, queue_policies._filter))
    monkeypatch.setattr(non_destructive.Cursors, "changed", lambda self: looked.append(0))
    for n in (0, 399, 7, 200):
        w.publish("q", value(f"k{n}", f"b{n}"))
    assert looked == [1] * 4
    wanted = [f"a{n}" for n in range(400) if n not in (0, 399, 7, 200)] + ["b0", "b399", "b7", "b200"]
    w.effects.clear()
    w.subscribe(2)
    assert bodies(w.effects, 2) == wanted


def _spy(looked: list[int], original):
    def called(queue, store, *more):
        looked.append(len(store))
        original(queue, store, *more)

    return called


def test_keys_of_messages_that_left_are_forgotten():
    w = world(last_value=True)
    w.subscribe(1)
    for n in range(5000):
        w.publish("q", value(str(n), "x"))
    w.unsubscribe(1)
    w.publish("q", value("a", "x"))
    w.publish("q", value("a", "y"))
    assert len(w.engine._slot.queues[1].kind.last_value._newest) < 1100


plans = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=4)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("nack"), st.integers(1, 3)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=200, deadline=None)
@given(plans, st.sampled_from([100, 1 << 20]))
def test_a_queue_of_last_values_is_a_dictionary(plan, memory):
    """Nobody is attached while messages come, so that the model is: per key the newest, in order."""
    w = world(last_value=True, queue_memory_bytes=memory, page_bytes=60, max_delivery_attempts=-1, auto_delete=False)
    model: list[tuple[str, str]] = []
    number, consumer = 0, 100
    for what, detail in plan:
        if what == "publish":
            batch = []
            for key in detail:
                number += 1
                model = [(k, b) for k, b in model if not key or k != key] + [(key, str(number))]
                batch.append(value(key, str(number)) if key else f"\n\n{number}\0".encode())
            w.publish("q", *batch, durable=True)
        elif what == "restart":
            w.commit()
            w.restart(clean=detail)
            w.settle_down()
        else:
            consumer += 1
            effects = w.subscribe(consumer, ack=INDIVIDUAL, credit_messages=detail)
            taken = bodies(effects) or bodies(w.effects, consumer)
            held = ids(w.effects, consumer)
            assert taken == [b for _, b in model[: len(taken)]]
            assert len(taken) == min(detail, len(model))
            if what == "take" and held:
                w.settle(consumer, *held)
                model = model[len(set(held)) :]
            taken = bodies(w.effects, consumer)
            w.disconnect(consumer)
    w.commit()
    w.restart()
    w.settle_down()
    w.subscribe(99)
    w.settle_down()
    assert bodies(w.effects, 99) == [b for _, b in model]


def test_values_that_wait_for_a_selector_are_replaced_too():
    w = world(last_value=True, queue_memory_bytes=300, page_bytes=100)
    w.subscribe(1, selector="colour = 'red'", ack=INDIVIDUAL)
    for n in range(30):
        w.publish("q", value("a", f"{n}"), value(f"b{n % 3}", f"{n}"), durable=True)
    assert w.queue()["ready"] + w.queue()["paged"] == 4
    w.subscribe(2)
    w.settle_down()
    assert sorted(bodies(w.effects, 2), key=int) == ["27", "28", "29", "29"]


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


# ── messages that stay ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ack", [AUTO, CLIENT, INDIVIDUAL])
def test_everybody_sees_everything_and_consuming_changes_nothing(ack):
    w = world(non_destructive=True)
    w.publish("q", b"\n\n1\0", b"\n\n2\0", durable=True)
    one = w.subscribe(1, ack=ack)
    assert bodies(one, 1) == ["1", "2"]
    if ack is not AUTO:
        w.settle(1, *ids(one, 1))
    effects = w.publish("q", b"\n\n3\0", durable=True) or w.effects
    assert bodies(w.effects, 1) == ["1", "2", "3"]
    assert bodies(w.subscribe(2, ack=ack), 2) == ["1", "2", "3"]
    w.disconnect(1)
    w.disconnect(2)
    assert effects is not None and w.queue()["ready"] == 3 and w.queue()["delivering"] == 0
    w.restart()
    w.settle_down()
    w.subscribe(3)
    w.settle_down()
    assert bodies(w.effects, 3) == ["1", "2", "3"] and again(w.effects)[0][1:] == (0, False)


def test_credit_comes_back_and_the_place_is_kept():
    w = world(non_destructive=True)
    w.publish("q", *[b"\n\n%d\0" % n for n in range(5)])
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    for _ in range(4):
        w.settle(1, ids(w.effects, 1)[-1], outcome=Outcome.ACK)
    assert bodies(w.effects, 1) == ["0", "1", "2", "3", "4"]
    w.do(Settle(7, 1, 0, 1, [ids(w.effects, 1)[-1]], Outcome.NACK))
    assert bodies(w.effects, 1) == ["0", "1", "2", "3", "4"]


def test_more_than_memory_is_seen_by_everybody():
    w = world(non_destructive=True, queue_memory_bytes=300, page_bytes=100)
    for n in range(100):
        w.publish("q", b"\n\n%d\0" % n, durable=n % 2 == 0)
    for consumer in (1, 2):
        w.subscribe(consumer)
        w.settle_down()
        assert bodies(w.effects, consumer) == [str(n) for n in range(100)]
    w.publish("q", b"\n\nlast\0", durable=True)
    assert bodies(w.effects, 1)[-1] == bodies(w.effects, 2)[-1] == "last"
    w.restart()
    w.settle_down()
    w.subscribe(3)
    w.settle_down()
    assert bodies(w.effects, 3) == [*(str(n) for n in range(0, 100, 2)), "last"]


def test_staying_messages_leave_by_expiry_and_by_newer_values():
    w = world(non_destructive=True, last_value=True)
    w.publish("q", value("a", "1"), expires=w.now + 100)
    w.publish("q", value("b", "2"), durable=True)
    w.subscribe(1)
    w.publish("q", value("b", "3"), durable=True)
    w.tick(5000)
    assert bodies(w.effects, 1) == ["1", "2", "3"]
    assert bodies(w.subscribe(2), 2) == ["3"]


def test_a_consumer_that_attaches_again_goes_on_where_it_was():
    w = world(non_destructive=True)
    w.publish("q", b"\n\n1\0", b"\n\n2\0", b"\n\n3\0", durable=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    held = ids(w.effects, 1)
    w.restart(first_id=1 << 40)
    w.settle_down()
    w.attach(1, held=[(held[0], held[1])], ack=INDIVIDUAL, credit_messages=2)
    w.settle_down()
    assert bodies(w.effects, 1) == []
    w.settle(1, *held)
    assert bodies(w.effects, 1) == ["3"]


def test_selectors_and_exclusive_consumers_of_messages_that_stay():
    w = world(non_destructive=True)
    red = b"colour:red\n\n1\0"
    w.subscribe(1, selector="colour = 'red'", ack=INDIVIDUAL, credit_messages=1)
    w.publish("q", b"\n\n0\0", red, b"\n\n2\0", b"colour:red\n\n3\0", durable=True)
    w.settle(1, ids(w.effects, 1)[0])
    assert bodies(w.effects, 1) == ["1", "3"]
    assert bodies(w.subscribe(2), 2) == ["0", "1", "2", "3"]
    alone = world(non_destructive=True, exclusive=True)
    alone.publish("q", red)
    alone.subscribe(1)
    assert got(alone.subscribe(2), 2) == []
    assert bodies(alone.unsubscribe(1), 2) == ["1"]


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
