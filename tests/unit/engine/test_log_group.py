"""Records of one turn that count together or not at all."""

from __future__ import annotations

from broker.core.message import TRANSIENT, Run
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.engine.state.log_group import grouped

LASTING = [MetaRecord(7, "ids", {"next": n}) for n in range(3)]
PAGED = RunRecord(7, "a", [1], Run(range(1, 2), b"", [b"x"], 1, TRANSIENT))
GONE = SettleRecord(7, 1, [(1, 1)], durable=False)


def test_what_lasts_is_one_group_and_what_no_restart_sees_stands_behind_it():
    group, *rest = grouped(7, [PAGED, LASTING[0], GONE, LASTING[1]])
    assert isinstance(group, GroupRecord) and group.slot == 7 and group.records == LASTING[:2]
    assert rest == [PAGED, GONE]


def test_groups_within_become_one_and_keep_their_order():
    [group] = grouped(7, [LASTING[0], GroupRecord(7, LASTING[1:])])
    assert group.records == LASTING
    group, transient = grouped(7, [GroupRecord(7, [LASTING[0], PAGED]), LASTING[1]])
    assert group.records == LASTING[:2] and transient is PAGED


def test_a_group_of_one_is_none():
    assert grouped(7, [LASTING[0]]) == [LASTING[0]]
    assert grouped(7, [LASTING[0], PAGED]) == [LASTING[0], PAGED]
    assert grouped(7, [PAGED]) == [PAGED] and grouped(7, []) == []
    durable = SettleRecord(7, 1, [(2, 2)])
    assert grouped(7, [durable, GONE]) == [durable, GONE]
