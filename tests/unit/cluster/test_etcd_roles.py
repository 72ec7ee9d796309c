"""What each role may do in etcd: enough for its work, and nothing of another's."""

from __future__ import annotations

import pytest

from broker.app.copies.metadata import _lasting
from broker.cluster.etcd_roles import ROLES, grants, role_name
from broker.cluster.keys import Keys
from broker.metadata.etcd_auth import KeyRight, Right

KEYS = Keys("/stampede/a")


def writable(role: str, api: bool = True) -> set[str]:
    return {grant.prefix for grant in grants(KEYS, role, api) if grant.right is not Right.READ}


def test_who_leads_a_slot_is_said_by_owners_and_people_alone():
    assert KEYS.slots in writable("owner") and KEYS.slots not in writable("edge")
    for prefix in (KEYS.owners, KEYS.suspects, KEYS.controller):
        assert [role for role in ROLES if prefix in writable(role)] == ["owner"]
    assert [role for role in ROLES if KEYS.disks in writable(role)] == ["owner", "operator"], "a backup brings them"


def test_backups_are_made_and_restored_by_the_operators_role():
    """One range of all keys, which etcd allows who may read all of it and no gap."""
    assert KeyRight(KEYS.root, Right.READ) in grants(KEYS, "operator")
    assert {*_lasting(KEYS), KEYS.restored} <= writable("operator")


def test_who_is_let_in_is_not_said_by_owners():
    assert KEYS.config in writable("edge") and KEYS.config in writable("operator")
    assert KEYS.config not in writable("owner") and KeyRight(KEYS.config, Right.READ) in grants(KEYS, "owner")


def test_an_edge_without_an_api_reads_settings_only():
    assert not {KEYS.config, KEYS.turns} & writable("edge", api=False)
    assert KeyRight(KEYS.config, Right.READ) in grants(KEYS, "edge", api=False)
    assert KEYS.subscriptions in writable("edge", api=False)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_of_one_cluster_and_its_keys_alone(role):
    assert role_name(KEYS, role) == f"/stampede/a/{role}"
    found = grants(KEYS, role)
    assert all(grant.prefix.startswith(KEYS.root) for grant in found)
    assert [grant for grant in found if grant.prefix == KEYS.root] == [KeyRight(KEYS.root, Right.READ)] * (
        role == "operator"
    )
    assert len({grant.prefix for grant in found}) == len(found)
