"""What the doctor says of a cluster: clocks, etcd member by member, owners that are away."""

from __future__ import annotations

import json

from broker.app.doctor import doctor_cluster
from broker.app.doctor.doctor import FAULT, FINE, WARNING
from broker.app.doctor.doctor_cluster import Reply
from broker.cluster.operate import Picture
from broker.cluster.planning.view import Policy, View
from broker.core.slots import Member, SlotRecord


def found(done) -> dict[str, dict[str, str]]:
    return {one["check"]: one for one in json.loads(done.stdout)}


def test_clocks_of_members_are_compared():
    levels = [one.check for one in doctor_cluster.of_member("o1", "a:1", Reply(200, "", 9.0))]
    assert levels == ["clocks"]
    assert list(doctor_cluster.of_member("o1", "a:1", Reply(200, "", 1.0))) == []
    assert [one.level for one in doctor_cluster.of_member("o1", "a:1", Reply(503, "no"))] == [FAULT]
    assert [one.level for one in doctor_cluster.of_member("o1", "a:1", Reply(0, "no"))] == [WARNING]


def etcd_row(endpoint: str, **values: object) -> dict[str, object]:
    row = {"endpoint": endpoint, "state": "up", "version": "3.5", "leader": "a", "members": 3, "database bytes": 9}
    return {**row, **values}


def test_etcd_is_judged_member_by_member():
    def levels(*rows):
        return [one.level for one in doctor_cluster.of_etcd(rows)]

    assert levels(etcd_row("a:1"), etcd_row("b:1")) == [FINE, FINE]
    assert levels(etcd_row("a:1"), etcd_row("b:1", state="OSError", leader="")) == [FINE, FAULT]
    assert levels(etcd_row("a:1", state="nearly full: compact and defragment it")) == [WARNING]
    assert levels(etcd_row("a:1", members=1)) == [FINE, WARNING]
    assert levels(etcd_row("a:1"), etcd_row("b:1", leader="b")) == [FINE, FINE, FAULT]


def picture(*alive: str, controller: str = "o1") -> Picture:
    owners = {name: Member(name, "owner", f"{name}:1", "b") for name in alive}
    records = {0: SlotRecord(0, 1, "o1", ("o1", "o2", "o3"), ("o1", "o2", "o3"), "", 1)}
    return Picture(View(owners, records, Policy()), {}, controller, {}, {})


def test_a_cluster_with_an_owner_away_names_it_and_what_is_short():
    assert {one.level for one in doctor_cluster.of_cluster(picture("o1", "o2", "o3"))} == {FINE}
    found = list(doctor_cluster.of_cluster(picture("o1", "o2")))
    assert [(one.check, one.level) for one in found] == [("owners", FAULT), ("slots", WARNING)]
    assert "o3" in found[0].found
    found = list(doctor_cluster.of_cluster(picture("o2", controller="")))
    assert [one.check for one in found] == ["controller", "owners", "slots", "slots"]
    assert all(one.fix for one in found)
