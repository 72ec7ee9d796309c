"""What a plan is made from: who may be given what, what counts as led, and the table in numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.cluster.identity import ghost
from broker.cluster.planning.view import Health, Policy, Step, StepKind, View, health, leaders
from broker.config.settings import ClusterSettings
from broker.core.slots import Member, SlotRecord

from .placement_world import edges, members

RECORD = SlotRecord(0, 3, "a", ("a", "b", "c"), ("a", "b", "c"))


def view(*records: SlotRecord, owners: dict[str, Member] | None = None, **more) -> View:
    return View(owners or members("a", "b", "c"), {one.slot: one for one in records}, Policy(), **more)


def test_the_policy_is_that_of_the_settings():
    assert Policy.of(ClusterSettings(replicas=5, min_in_sync=4, max_moves=3)) == Policy(5, 4, 3)


def test_something_new_goes_to_who_lives_and_is_not_on_its_way_out():
    seen = view(owners=members("d", "a", "b", "c", leaving="b"), cordoned=frozenset("c"))
    assert seen.eligible() == ["a", "d"]


def test_replicas_belong_on_live_owners_and_on_those_that_are_expected_back():
    away = replace(RECORD, replicas=("a", "away", "gone", "cordoned", ghost("b", "disk")))
    seen = view(away, owners=members("a", "b"), lost=frozenset(["gone"]), cordoned=frozenset(["cordoned"]))
    assert seen.homes() == ["a", "away", "b"]


def test_an_owner_that_names_no_zone_is_one_of_its_own():
    seen = view(owners=members("a", "b", zones="x "), zones={"dead": "y"})
    assert (seen.zone("a"), seen.zone("dead")) == ("x", "y")
    unnamed = view(zones={"a": "old"})
    assert unnamed.zone("a") != unnamed.zone("b") and unnamed.zone("a") != "old", "what it says now counts"


@pytest.mark.parametrize(
    ("missed", "cut"),
    [(("a", "a"), "a"), (("a", ""), ""), (("a", "a", ""), "a"), (("ab", "b", "b"), "b"), ((), "")],
)
def test_more_than_half_of_the_edges_cut_an_owner_off(missed, cut):
    assert view(edges=edges(*missed)).cut_off() == frozenset(cut)


def test_only_live_owners_are_unreached():
    assert view(edges=edges("az", "a")).unreached() == {"a": ["e0", "e1"]}


def test_led_is_what_a_live_member_of_the_isr_leads():
    seen = view()
    assert seen.led(RECORD)
    assert not seen.led(replace(RECORD, leader="dead"))
    assert not seen.led(replace(RECORD, leader="a", isr=("b", "c")))
    assert seen.handing_over(replace(RECORD, target="b"))
    assert not seen.handing_over(RECORD)
    assert not seen.handing_over(replace(RECORD, target="b", leader="dead"))


def test_the_table_in_numbers():
    at_rest = [replace(RECORD, slot=slot) for slot in range(4)]
    assert health(view(*at_rest)) == Health(4, 4, 0, 0, 0, 0, 0, 0)
    seen = view(
        at_rest[0],
        replace(RECORD, slot=1, leader=""),  # offline
        replace(RECORD, slot=2, isr=("a",)),  # stalled, two seeded
        replace(RECORD, slot=3, isr=("a", "b"), target="b"),  # one seeded, one transfer
        replace(RECORD, slot=4, leader="", isr=("dead",), shelved="it stops"),
    )
    assert health(seen) == Health(5, 3, 2, 1, 3, 3, 1, 1)


def test_of_a_small_cluster_no_more_replicas_are_wanted_than_it_has_owners():
    alone = SlotRecord(0, 1, "a", ("a",), ("a",))
    assert health(view(alone, owners=members("a"))).under_replicated == 0
    assert health(view(alone, owners=members("a", "b"))).under_replicated == 1


def test_a_hand_over_that_is_planned_counts_as_done():
    assert leaders(view(RECORD, replace(RECORD, slot=1, target="c"))) == {"a": 1, "c": 1}


def test_steps_read_as_sentences():
    new = replace(RECORD, leader="b", epoch=4)
    said = {
        StepKind.CREATE: "slot 0: create on a, b, c, led by b",
        StepKind.FAILOVER: "slot 0: b leads instead of a, epoch 4",
        StepKind.CANCEL: "slot 0: no transfer to b",
        StepKind.TRANSFER: "slot 0: a hands over to b",
        StepKind.ADD: "slot 0: add replica on b",
        StepKind.DROP: "slot 0: drop replica on b",
    }
    assert {kind: Step(kind, RECORD, new, "b").text() for kind in StepKind} == said
    assert "instead of nobody" in Step(StepKind.FAILOVER, replace(RECORD, leader=""), new, "b").text()
