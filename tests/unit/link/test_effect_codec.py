"""Effects over the link: in their order, a shared run once, and what names no run is refused."""

from __future__ import annotations

import pytest

from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code, ProtocolViolation
from broker.core.reasons import Reason
from broker.link.codec.codec import SlotState, decode_down
from broker.link.codec.effect_codec import DownBuilder, read_effects
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.world import run_of

TOKEN = 0x1234_5678_9ABC_DEF0 >> 1


def at_owner(number):
    return TOKEN << 40 | number


def test_effects_arrive_in_their_order_and_a_shared_run_once():
    shared = run_of(b"x" * 5000, b"y" * 5000, ids=range(10, 12))
    other = run_of(b"z", ids=[5])
    builder = DownBuilder()
    builder.done(at_owner(1), 256)
    for consumer in (1, 2, 3):
        builder.deliver(at_owner(consumer), other, 10)
        builder.deliver(at_owner(consumer), shared, 20)
    builder.other(Refused(at_owner(4), 512, Code.DISK_FULL, "why"))
    builder.other(ConsumerClosed(at_owner(5), Reason.QUEUE_DELETED, "gone"))
    builder.other(BrowseEnd(at_owner(6)))
    builder.other(SlotState(9, 4, 1))
    builder.done(at_owner(7), 768)
    data = builder.finish().SerializeToString()
    assert len(data) < 11_000
    effects = read_effects(decode_down(data))
    assert [type(effect) for effect in effects] == (
        [Done] + [Deliver] * 6 + [Refused, ConsumerClosed, BrowseEnd, SlotState, Done]
    )
    deliveries = effects[1:7]
    assert [each.consumer for each in deliveries] == [1, 1, 2, 2, 3, 3]
    assert [each.cost for each in deliveries] == [10, 20] * 3
    assert deliveries[1].run is deliveries[3].run is deliveries[5].run
    assert [list(each.run.ids) for each in deliveries[:2]] == [[5], [10, 11]]
    assert (effects[7].session, effects[7].seq, effects[7].code, effects[7].detail) == (4, 512, Code.DISK_FULL, "why")
    assert (effects[8].consumer, effects[8].reason) == (5, Reason.QUEUE_DELETED)
    assert effects[9].consumer == 6


def test_the_turns_of_a_consumer_keep_their_ids():
    run = run_of(b"1", b"2", b"3", b"4", ids=range(10, 14))
    builder = DownBuilder()
    builder.deliver(at_owner(1), run.cut(slice(1, None, 2)), 10)
    (effect,) = read_effects(decode_down(builder.finish().SerializeToString()))
    assert list(effect.run.ids) == [11, 13]


def test_deliveries_that_name_no_run_are_refused():
    for consumer, run, cost in (([1], [0], [1]), ([1, 2], [0], [1, 1]), ([1], [0], [])):
        down = pb.Down()
        deliveries = down.effects.add().deliveries
        deliveries.consumer.extend(consumer)
        deliveries.run.extend(run)
        deliveries.cost.extend(cost)
        with pytest.raises(ProtocolViolation):
            read_effects(decode_down(down.SerializeToString()))
