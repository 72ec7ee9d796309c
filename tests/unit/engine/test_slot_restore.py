"""An engine from what its log says: numbers go on behind the old ones, and no record is passed over."""

from __future__ import annotations

import pytest

from broker.config.settings import EngineSettings
from broker.core.errors import NewerRelease
from broker.core.records import META_KINDS, MetaRecord
from broker.engine.engine import Engine
from broker.engine.recovery import slot_restore

from .test_following import EPOCH
from .world import INDIVIDUAL, World, again, got, ids


def test_what_a_leader_handed_over_comes_back_marked():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    for body in (b"a", b"b", b"c"):
        world.publish("q", body, durable=True)
    assert got(world.effects) == [b"a", b"b"]
    world.log = [(0, r) for r in world.engine.hand_over()] + [
        (n, r) for n, r in world.log if not isinstance(r, MetaRecord)
    ]
    world.restart(first_id=EPOCH)
    world.subscribe(2)
    world.settle_down()
    assert [(body, marked) for body, _, marked in again(world.effects)][:2] == [(b"a", True), (b"b", True)]
    world.publish("q", b"d", durable=True)
    assert ids(world.effects)[-1] == EPOCH


def test_numbers_begin_where_the_epoch_says_or_behind_those_announced():
    world = World()
    world.engine = Engine(7, world.settings, first_id=5 * EPOCH)
    world.publish("q", b"a", durable=True)
    assert ids(world.subscribe(1)) == [5 * EPOCH]
    world.commit()
    world.restart(first_id=EPOCH)
    world.subscribe(1)
    world.publish("q", b"a", durable=True)
    assert ids(world.effects)[-1] > 5 * EPOCH


def test_a_record_of_a_newer_release_is_refused_by_its_name():
    with pytest.raises(NewerRelease, match="slot 7: a newer release has written 'news'"):
        Engine(7, EngineSettings()).restore_meta(MetaRecord(7, "news", {}))


def test_all_kinds_of_records_are_known():
    assert slot_restore._REPLAY.keys() == META_KINDS
