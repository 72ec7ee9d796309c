"""Queues of last values: the newest of each key waits, whatever becomes of the older ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.address import Outcome
from broker.core.commands import Publish, Settle
from broker.engine.dispatch import non_destructive, queue_policies

from .test_queue_policies import _spy, bodies, on_disk, plans, value, world
from .world import ANYCAST, INDIVIDUAL, ids, run_of


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
    w = world(last_value_key="quota")
    w.publish("q", b"quota:x\n\n1\0", b"quota:x\n\n2\0", value("k", "3"), value("k", "4"))
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


def test_keys_of_messages_that_left_are_forgotten():
    w = world(last_value=True)
    w.subscribe(1)
    for n in range(5000):
        w.publish("q", value(str(n), "x"))
    w.unsubscribe(1)
    w.publish("q", value("a", "x"))
    w.publish("q", value("a", "y"))
    assert len(w.engine._slot.queues[1].kind.last_value._newest) < 1100


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
