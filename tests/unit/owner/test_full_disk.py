"""While the disk is nearly full, what would be written is refused, and what would not is taken."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.core.address import Routing
from broker.core.commands import Prepare, Publish
from broker.core.errors import Code
from broker.core.message import Blob
from broker.owner.commit.full_disk import refuse_full
from tests.unit.engine.world import run_of
from tests.unit.owner.lifecycle_world import SLOT, World


def test_a_full_disk_prepares_nothing():
    world = World().leading()
    world.journal._store.lacks(no_space=True)
    part = Publish(SLOT, 5, 0, "q", Routing.ANYCAST, run_of(b"m"))
    world.shard.submit([Prepare(SLOT, 5, 3, "t", 8, [part]), Prepare(SLOT, 5, 4, "u", 8, [])])
    world.run()
    assert [getattr(e, "code", e.seq) for e in world.effects] == [Code.DISK_FULL, 4]


@pytest.mark.parametrize(
    ("run", "paged", "refused"),
    [
        ({"durable": True}, False, True),
        ({"blob": Blob(1, 9)}, False, True),
        ({}, True, True),
        ({}, False, False),
    ],
)
def test_what_is_refused_is_what_would_be_written(run, paged, refused):
    told: list = []
    engine = SimpleNamespace(would_page=lambda command: paged, refuse=lambda *said: told.append(said))
    command, turn = Publish(SLOT, 5, 1, "q", Routing.ANYCAST, run_of(b"m", **run)), object()
    assert refuse_full(engine, command, turn) is refused
    assert [(said[0], said[1].code, said[2]) for said in told] == [(command, Code.DISK_FULL, turn)] * refused
