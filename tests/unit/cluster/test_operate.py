"""What an operator changes in the store: by compare-and-swap, refused by name, and never data away unsaid."""

from __future__ import annotations

import msgspec
import pytest

from broker.cluster.applied import Applied
from broker.cluster.controller_election import ElectedController
from broker.cluster.operate import (
    ATTEMPTS,
    NotPossible,
    ask_to_lead,
    edit_table,
    force,
    look,
    only_grow,
    set_cordon,
    table_of,
    unshelve,
)
from broker.cluster.planning.view import Policy
from broker.config.settings import EngineSettings
from broker.core.slots import SlotRecord
from broker.metadata.port import KeyValue, Put

from .members import KEYS, member, stored


class Cluster:
    """Owners a, b and c live; slot 7 is led by a and replicated to b, which is in sync, and to c, which is not."""

    def __init__(self, **more) -> None:
        self.store, self.metadata = stored()
        for name in "abc":
            self.put(KEYS.member("owner", name), member(name).encode())
        self.write(
            SlotRecord(**{"slot": 7, "epoch": 3, "leader": "a", "replicas": tuple("abc"), "isr": tuple("ab")} | more)
        )

    def put(self, key: str, value: bytes) -> None:
        self.store.commit([], [Put(key, value)])

    def write(self, record: SlotRecord) -> None:
        self.put(KEYS.slot(record.slot), record.encode())

    @property
    def record(self) -> SlotRecord:
        item = self.store.keys[KEYS.slot(7)]
        return SlotRecord.decode(7, item.value, item.revision)

    def others_win(self, times: int) -> None:
        """So often somebody else has just written what is to be swapped."""
        commit, left = self.metadata.commit, [times]

        async def outrun(compare, then):
            if left[0]:
                left[0] -= 1
                return 0
            return await commit(compare, then)

        self.metadata.commit = outrun


@pytest.mark.parametrize(
    ("owner", "state", "target", "replicas"),
    [
        ("a", "done", "", "abc"),
        ("b", "handing over", "b", "abc"),
        ("c", "seeding", "", "abc"),
        ("d", "seeding", "", "abcd"),
    ],
)
async def test_to_lead_one_becomes_a_replica_then_in_sync_then_the_leader(owner, state, target, replicas):
    cluster = Cluster()
    cluster.put(KEYS.member("owner", "d"), member("d").encode())
    assert await ask_to_lead(cluster.metadata, KEYS, 7, owner) == state
    assert (cluster.record.target, cluster.record.replicas) == (target, tuple(replicas))
    before = cluster.record
    assert await ask_to_lead(cluster.metadata, KEYS, 7, owner) == state, "to be repeated until it is done"
    assert cluster.record == before, "and nothing is written again"


@pytest.mark.parametrize(
    ("more", "owner", "text"),
    [({"shelved": "it stops"}, "b", "unshelve 7"), ({}, "z", "no live owner 'z'"), ({}, "c", "undrain c")],
)
async def test_who_cannot_lead_is_refused_with_what_would_help(more, owner, text):
    cluster = Cluster(**more)
    cluster.put(KEYS.cordon("c"), b"")
    with pytest.raises(NotPossible, match=text):
        await ask_to_lead(cluster.metadata, KEYS, 7, owner)


@pytest.mark.parametrize(
    ("slot", "text"),
    [
        (-1, "no slot -1; slots are 0 to 255"),
        (256, "no slot 256"),
        (8, "Slot 8 has no record yet"),
        (0, "no record yet"),
    ],
)
async def test_a_slot_that_is_none_is_named(slot, text):
    for change in (ask_to_lead, force):
        with pytest.raises(NotPossible, match=text):
            await change(Cluster().metadata, KEYS, slot, "b")
    with pytest.raises(NotPossible, match=text):
        await unshelve(Cluster().metadata, KEYS, slot)


async def test_what_somebody_else_changes_meanwhile_is_read_again_and_not_for_ever():
    cluster = Cluster()
    cluster.others_win(ATTEMPTS - 1)
    assert await ask_to_lead(cluster.metadata, KEYS, 7, "b") == "handing over"
    cluster = Cluster(shelved="it stops")
    cluster.others_win(10 * ATTEMPTS)
    for change in (unshelve(cluster.metadata, KEYS, 7), edit_table(cluster.metadata, KEYS.queue("q"), {"a": 1})):
        with pytest.raises(NotPossible, match="changes all the time"):
            await change


async def test_nobody_is_forced_to_lead_while_nothing_need_be_lost():
    cluster = Cluster()
    with pytest.raises(NotPossible):
        await force(cluster.metadata, KEYS, 7, "c")
    cluster.write(SlotRecord(7, 3, "dead", ("dead", "c"), ("dead",)))
    await force(cluster.metadata, KEYS, 7, "c")
    assert (cluster.record.leader, cluster.record.isr, cluster.record.epoch) == ("c", ("c",), 4)


async def test_a_slot_is_tried_again_only_when_it_is_out_of_service():
    cluster = Cluster(shelved="it stops")
    cluster.put(KEYS.throw(7), b"note")
    assert not (await unshelve(cluster.metadata, KEYS, 7)).shelved and not cluster.record.shelved
    assert KEYS.throw(7) not in cluster.store.keys, "it begins anew"
    with pytest.raises(NotPossible, match="not shelved"):
        await unshelve(cluster.metadata, KEYS, 7)


async def test_a_cordon_is_for_owners_that_live_or_have_something():
    cluster = Cluster(replicas=("a", "dead"))
    assert await set_cordon(cluster.metadata, KEYS, "a", True)
    assert not await set_cordon(cluster.metadata, KEYS, "a", True), "it was so already"
    assert await set_cordon(cluster.metadata, KEYS, "dead", True)
    with pytest.raises(NotPossible, match="no owner 'ad'"):
        await set_cordon(cluster.metadata, KEYS, "ad", True)
    assert await set_cordon(cluster.metadata, KEYS, "a", False)
    assert not await set_cordon(cluster.metadata, KEYS, "a", False)


async def test_a_table_is_laid_over_and_goes_when_it_is_empty():
    cluster, key = Cluster(), KEYS.queue("q")
    assert await edit_table(cluster.metadata, key, {"a": 1, "b": 2, "c": None}) == {"a": 1, "b": 2}
    assert await edit_table(cluster.metadata, key, {"a": None, "b": 3}) == {"b": 3}
    assert table_of(cluster.store.keys[key]) == {"b": 3}
    assert await edit_table(cluster.metadata, key, {"b": None}) == {}
    assert key not in cluster.store.keys


def test_what_cannot_be_read_is_an_empty_table_so_that_who_writes_it_mends_it():
    assert table_of(None) == table_of(KeyValue("k", b"[", 1)) == table_of(KeyValue("k", b"[1]", 1)) == {}


def test_partitions_are_not_taken_away():
    only_grow("a", {"partitions": 2}, {"partitions": 2})
    with pytest.raises(NotPossible):
        only_grow("a", {"partitions": 4}, {"partitions": 2})


async def test_the_picture_is_what_stands_in_the_store():
    cluster = Cluster()
    cluster.put(KEYS.member("edge", "e0"), member("e0", "edge").encode())
    cluster.put(KEYS.cordon("b"), b"")
    cluster.put(KEYS.applied_by("a"), msgspec.json.encode(Applied(9)))
    cluster.put(KEYS.queue("q"), b"{")
    default = Policy(5, 4, 3)
    picture = await look(cluster.metadata, KEYS, default, EngineSettings())
    assert set(picture.view.owners) == set("abc") and set(picture.edges) == set(picture.view.edges) == {"e0"}
    assert picture.view.records == {7: cluster.record} and picture.view.cordoned == {"b"}
    assert picture.applied == {"a": 9} and set(picture.bad) == {KEYS.queue("q")}
    assert (picture.controller, picture.view.policy) == ("", default)
    cluster.put(KEYS.controller, msgspec.json.encode(ElectedController("c", "boot", 2, 1, 1)))
    picture = await look(cluster.metadata, KEYS, default, EngineSettings())
    assert (picture.controller, picture.view.policy) == ("c", Policy(2, 1, 1)), "plans are shown by that of who plans"


async def test_a_record_that_cannot_be_read_is_named():
    cluster = Cluster()
    cluster.put(KEYS.slot(7), b"{")
    with pytest.raises(NotPossible, match=KEYS.slot(7)):
        await ask_to_lead(cluster.metadata, KEYS, 7, "b")
