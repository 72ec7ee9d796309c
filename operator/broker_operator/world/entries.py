"""Address, StompUser, the quotas and bridges of a StompBroker → keys in etcd: what they want there, whose a key is, and
what must be written.

Rule: pure. A key is written only if it differs; the oldest resource has a key that several want; a key's marker changes
with it in one transaction. Deleting a key touches another one of the resource, because only keys that are there have a
revision that a pod which starts later can reach.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from broker.cluster.keys import Keys
from broker.config.load import checked_entry
from broker.core.errors import ConfigError
from broker.metadata.port import Delete, KeyValue, Put

from ..spec import bridges
from ..spec.conditions import Condition, stands
from ..spec.model import AddressSpec, BrokerSpec, Resource, Table, json_table
from ..spec.names import Id
from ..spec.schema import entry_settings

CHUNK = 50
"""Keys per transaction: etcd takes 128 operations, and each key has a marker."""

SHOWN = 200
"""Bytes of a foreign value that people are shown."""

Wanted = Mapping[str, bytes]
"""Key → value."""


def encoded(table: Mapping[str, object]) -> bytes:
    """Equal tables make equal bytes."""
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()


def of_address(resource: Resource, keys: Keys) -> dict[str, bytes]:
    """The keys of an Address; the first one is its own. Raises ConfigError for what the broker would refuse."""
    spec = resource.spec(AddressSpec)
    where = f"Address {resource.id.name}"
    name = spec.name or spec.match
    settings = checked_entry("engine.addresses", name, entry_settings("engine.addresses", spec.settings), where)
    found = {(keys.address(name) if spec.name else keys.setting(name)): encoded(settings)}
    for queue in spec.queues:
        table = {**entry_settings("engine.queues", queue), "address": spec.name}
        found[keys.queue(queue["name"])] = encoded(checked_entry("engine.queues", queue["name"], table, where))
    for divert in spec.diverts:
        table = {**entry_settings("engine.diverts", divert), "address": spec.name}
        found[keys.divert(divert["name"])] = encoded(checked_entry("engine.diverts", divert["name"], table, where))
    if spec.permissions is not None:
        table = entry_settings("edge.permissions", spec.permissions)
        found[keys.permission(name)] = encoded(checked_entry("edge.permissions", name, table, where))
    return found


def of_quotas(resource: Resource, keys: Keys) -> dict[str, bytes]:
    """The keys of the quotas of a StompBroker. Raises ConfigError for what the broker would refuse."""
    found = {}
    for quota in resource.spec(BrokerSpec).quotas:
        who = quota["who"]
        table = entry_settings("edge.quotas", {name: value for name, value in quota.items() if name != "who"})
        found[keys.quota(who)] = encoded(checked_entry("edge.quotas", who, table, f"StompBroker {resource.id.name}"))
    return found


def of_bridges(resource: Resource, keys: Keys) -> dict[str, bytes]:
    """The keys of the bridges of a StompBroker. Raises ConfigError for what the broker would refuse."""
    found = {}
    for bridge in resource.spec(BrokerSpec).bridges:
        name, table = bridge["name"], bridges.settings(bridge)
        found[keys.bridge(name)] = encoded(checked_entry("bridges", name, table, f"StompBroker {resource.id.name}"))
    return found


def bridges_lacking(resource: Resource, keys: Keys, config: Mapping[str, KeyValue]) -> list[str]:
    """Those of a StompBroker that are not there as it says: all, where one of them would be refused."""
    named = [bridge["name"] for bridge in resource.spec(BrokerSpec).bridges]
    try:
        wanted = of_bridges(resource, keys)
    except ConfigError:
        return named
    return [name for name in named if not same(config.get(keys.bridge(name)), wanted[keys.bridge(name)])]


def would_close(wanted: Wanted, keys: Keys, config: Mapping[str, KeyValue]) -> str:
    """The key of the first permission there would be: with it, all that it is not about is for nobody. "": there is
    none among these, or others are there."""
    first = next((key for key in wanted if key.startswith(keys.config_permissions)), "")
    if not first:
        return ""  # most have none: all keys would be looked at for each of 10,000 Addresses
    return "" if any(key.startswith(keys.config_permissions) for key in config) else first


def marker_of(resource: Resource, **more: object) -> bytes:
    """Whose a key is. more: what else we must remember of it."""
    id = resource.id
    return encoded({"kind": id.kind, "namespace": id.namespace, "name": id.name, "uid": resource.uid, **more})


def read_marker(item: KeyValue | None) -> Table:
    """{} when there is none."""
    return json_table(item.value if item is not None else None)


class Conflict(NamedTuple):
    """Another resource has this key."""

    key: str
    winner: Id


def conflict(
    resource: Resource, wanted: Iterable[str], claimants: Callable[[str], Iterable[Resource]]
) -> Conflict | None:
    """The first of the wanted keys that an older resource wants as well. claimants: all who want a key."""
    for key in wanted:
        first = min(claimants(key), key=age, default=resource)
        if first.uid != resource.uid:
            return Conflict(key, first.id)
    return None


def age(resource: Resource) -> tuple[str, str]:
    """The smaller, the older."""
    return resource.created, resource.uid


class Change(NamedTuple):
    """One transaction. All of `then` if all revisions of `compare` still hold."""

    compare: list[tuple[str, int]]
    then: list[Put | Delete]


def changes(
    keys: Keys,
    uid: str,
    wanted: Wanted,
    marker: bytes,
    config: Mapping[str, KeyValue],
    managed: Mapping[str, KeyValue],
    had: Iterable[str],
) -> list[Change]:
    """What must be written so that the resource `uid` has just the wanted keys. had: keys whose marker names it."""
    stale = [key for key in had if key not in wanted]
    touched = next(iter(wanted), "") if stale else ""
    steps: list[tuple[str, list[Put | Delete]]] = [(key, [Delete(key), Delete(keys.marker(key))]) for key in stale]
    for key, value in wanted.items():
        then: list[Put | Delete] = []
        if key == touched or not same(config.get(key), value):
            then.append(Put(key, value))
        if not same(managed.get(keys.marker(key)), marker):
            then.append(Put(keys.marker(key), marker))
        if then:
            steps.append((key, then))
    found = []
    for start in range(0, len(steps), CHUNK):
        part = steps[start : start + CHUNK]
        compare = [
            pair
            for key, _ in part
            for pair in ((key, _revision(config, key)), (keys.marker(key), _revision(managed, keys.marker(key))))
        ]
        found.append(Change(compare, [action for _, actions in part for action in actions]))
    return found


def released(keys: Keys, key: str, config: Mapping[str, KeyValue], managed: Mapping[str, KeyValue]) -> Change:
    """The resource that had this key is gone: so is the key, unless it is to be retained."""
    mark = keys.marker(key)
    then: list[Put | Delete] = [Delete(mark)]
    if not read_marker(managed.get(mark)).get("retain"):
        then.append(Delete(key))
    return Change([(key, _revision(config, key)), (mark, _revision(managed, mark))], then)


def same(item: KeyValue | None, value: bytes) -> bool:
    """Equal JSON, however it is written."""
    if item is None:
        return False
    if item.value == value:
        return True
    try:
        found: bool = json.loads(item.value) == json.loads(value)
    except ValueError:
        return False
    return found


def foreign(keys: Keys, wanted: Wanted, config: Mapping[str, KeyValue]) -> list[str]:
    """What stands in the wanted keys instead, for people: the first of them."""
    found = []
    for key, value in wanted.items():
        item = config.get(key)
        if item is None:
            found.append(f"{key.removeprefix(keys.config)} was deleted")
        elif not same(item, value):
            found.append(f"{key.removeprefix(keys.config)} was {item.value.decode(errors='replace')[:SHOWN]}")
    return found[:3]


def revision_of(wanted: Iterable[str], config: Mapping[str, KeyValue]) -> int:
    """Of the last change of these keys."""
    return max((_revision(config, key) for key in wanted), default=0)


def _revision(items: Mapping[str, KeyValue], key: str) -> int:
    item = items.get(key)
    return item.revision if item is not None else 0


def programmed(resource: Resource, revision: int, members: int, behind: list[str]) -> Condition:
    """True when every live member has applied the revision; and it stays so: a member that starts later reads
    everything before it is ready."""
    if stands(resource, "Programmed") and resource.status.get("etcdRevision") == revision:
        return Condition("Programmed", True, "Applied", "in use by every owner and edge")
    if not members:
        return Condition("Programmed", False, "NoMembers", "no owner or edge is running")
    if behind:
        more = f" and {len(behind) - 3} more" if len(behind) > 3 else ""
        return Condition("Programmed", False, "Pending", f"not yet in use by {', '.join(behind[:3])}{more}")
    return Condition("Programmed", True, "Applied", "in use by every owner and edge")
