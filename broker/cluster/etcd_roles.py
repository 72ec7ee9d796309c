"""What each kind of process may do with which keys of etcd: roles of etcd, that its users have.

    owner      keeps slots, disks, suspicions and the controller; reads members, settings, cordons
    edge       keeps names of durable subscriptions, bridges, its own registration; reads slots and members. Settings it
               writes only where its API for operators is to (`api`)
    operator   settings, cordons, what moves, whose a key is, and all that a backup brings back; reads all of it.
               Commands of the shell and Jobs of backups are this one, too

A process of one role that is taken over cannot forge what another one says: an edge makes no owner leader of a slot.

Rule: names of keys only from Keys; tests/cluster/test_mtls.py shows a role that lacks a right. Must not know how etcd
is asked.
"""

from __future__ import annotations

from typing import Final

from broker.metadata.etcd_auth import KeyRight, Right

from .keys import Keys

ROLES: Final = ("owner", "edge", "operator")


def role_name(keys: Keys, role: str) -> str:
    """One etcd may serve several clusters."""
    return keys.root + role


def grants(keys: Keys, role: str, api: bool = True) -> list[KeyRight]:
    """role: of ROLES.    api: an edge may write settings, users and tokens for who calls its API."""
    made = {"owner": _owner, "edge": _edge, "operator": _operator}[role](keys)
    if role == "edge" and not api:
        return [KeyRight(keys.config, Right.READ) if prefix == keys.config else KeyRight(prefix, right)
                for prefix, right in made if prefix != keys.turns]  # fmt: skip
    return made


def _owner(keys: Keys) -> list[KeyRight]:
    own = (keys.slots, keys.owners, keys.disks, keys.suspects, keys.throws, keys.controller, keys.applied)
    seen = (keys.edges, keys.config, keys.cordons, keys.rebalance)
    return _listed(own, seen)


def _edge(keys: Keys) -> list[KeyRight]:
    own = (keys.edges, keys.applied, keys.loads, keys.subscriptions, keys.bridges, keys.config, keys.turns)
    return _listed(own, (keys.slots, keys.owners, keys.cordons))


def _operator(keys: Keys) -> list[KeyRight]:
    own = (keys.config, keys.turns, keys.managed, keys.possession, keys.cordons, keys.rebalance, keys.slots)
    # A backup reads all of it in one range, which etcd allows only who may read the whole of that.
    return _listed((*own, keys.disks, keys.subscriptions, keys.restored), (keys.root,))


def _listed(own: tuple[str, ...], seen: tuple[str, ...]) -> list[KeyRight]:
    return [KeyRight(prefix, Right.READWRITE) for prefix in own] + [KeyRight(prefix, Right.READ) for prefix in seen]
