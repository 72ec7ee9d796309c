"""Who may do what: the table `edge.permissions`, asked by groups and address, and remembered.

As in Artemis: the most specific match of an address decides, alone; what it does not say, and what no match is about,
is for nobody. A table that was never filled means that everybody who is let in may do everything; one that was emptied
means the opposite. A queue is its address' affair, unless an entry names just that `address::queue`: then it decides,
whatever name the client used for the queue.

A wildcard subscription needs more than its pattern's own match: an entry for some of its addresses counts for it as
well, or `#` would show everything that an entry for `secret.#` keeps from others.

Of a virtual host's names its own entries decide, and no others; a host without any is for nobody once there are some
elsewhere.

Rule: pure; decides and never acts. Must not know sessions, users' names or frames. Which entries have a say is found by
permission_index.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Any

from broker.config.permissions import EVERYBODY, FQQN, OPERATIONS, groups_of
from broker.config.settings import Settings
from broker.core.virtual_host import split, whose

from .permission_index import PermissionEntry, PermissionIndex, Said

REMEMBERED = 4096
"""Names whose answer is kept for each set of groups: reply topics would pile up else."""
MAX_SETS = 1000
"""Sets of groups that are remembered; users share them."""

ADDRESS, DURABLE, OWN = "create_address", "create_durable_queue", "create_non_durable_queue"
CREATE = "create"
"""Label of what an owner was not allowed to create for a command: which of the create_… were missing depends on what
was there."""

NOTHING: frozenset[str] = frozenset()
READING = frozenset({"consume", "browse", "read"})
"""What a pattern must be allowed everywhere; anything else is the affair of its pattern's own match."""


class Rights:
    """What the users of one set of groups may do."""

    __slots__ = ("_groups", "_known", "_table")

    def __init__(self, table: Permissions, groups: frozenset[str]) -> None:
        self._table = table
        self._groups = groups
        self._known: dict[str, frozenset[str]] = {}

    def at(self, address: str, queue: str | None = None) -> frozenset[str]:
        """The operations (config.permissions.OPERATIONS) that are theirs at an address, a pattern of addresses, or a
        queue of one address."""
        name = full_name(address, queue)
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[name] = self._table.operations(self._groups, address, name)
        return found

    def explained(self, address: str, queue: str | None = None) -> list[tuple[str, bool, str | None, frozenset[str]]]:
        """Each operation, whether it is theirs, the match that says so (None: no match is about all of it), and the
        groups that match names for it."""
        return self._table.explained(self._groups, address, full_name(address, queue))

    def against(self, operation: str, address: str, queue: str | None = None) -> str | None:
        """The match that keeps them from it; None: there is none for (all of) it."""
        return self._table.against(self._groups, operation, address, full_name(address, queue))


def full_name(address: str, queue: str | None) -> str:
    """As a destination has it."""
    return address if queue is None else f"{address}{FQQN}{queue}"


class Permissions:
    """The whole table: match → its settings. delimiter: between the words of addresses.

    closed   an empty table is for nobody: edge.permissions_required."""

    def __init__(self, table: Mapping[str, Mapping[str, Any]], delimiter: str = ".", closed: bool = False) -> None:
        self._delimiter = delimiter
        self._hosts: dict[str, PermissionIndex] = {"": PermissionIndex(delimiter)}
        """By virtual host."""
        self._table: Mapping[str, Mapping[str, Any]] = {}
        self._said: dict[tuple[Any, ...], Said] = {}
        """What entries say, each set of values once: 100,000 entries say a few thousand things."""
        self._groups: frozenset[str] | None = None
        self._rights: dict[frozenset[str], Rights] = {}
        self.open = not closed
        """Everybody may do everything."""
        self.replace(table)

    def replace(self, table: Mapping[str, Mapping[str, Any]]) -> None:
        """These entries from now on: costs what differs, and a glance at each of the rest. Where there were some,
        none means that nobody may do anything. Rights that were given out answer as before for what they were asked."""
        before = self._table
        self.open = self.open and not before and not table
        self._table = table
        self._groups, self._rights = None, {}
        # In C as far as it goes: there may be a hundred thousand, and all but one as they were.
        if not before.keys() <= table.keys():
            for name in before.keys() - table.keys():
                self._drop(name, before[name])
        differ = map(is_not, map(before.get, table), table.values())
        for name in list(compress(table, differ)):
            values = table[name]
            if (old := before.get(name)) == values:
                continue
            if old is not None:
                self._drop(name, old)
            self._put(name, values)

    def _put(self, name: str, values: Mapping[str, Any]) -> None:
        host, local = _local(name)
        key = tuple(sorted(values.items()))
        said = self._said.get(key)
        if said is None:
            said = self._said[key] = Said(values)
        said.by_one_more()
        index = self._hosts.get(host)
        if index is None:
            index = self._hosts[host] = PermissionIndex(self._delimiter)
        index.put(PermissionEntry(name, local, said))

    def _drop(self, name: str, values: Mapping[str, Any]) -> None:
        host, local = _local(name)
        index = self._hosts[host]
        index.drop(local, name)
        key = tuple(sorted(values.items()))
        if self._said[key].by_one_less():
            del self._said[key]
        if host and not len(index):
            del self._hosts[host]

    @property
    def groups(self) -> frozenset[str]:
        """All that are named."""
        if self._groups is None:
            texts = (text for said in self._said.values() for text in said.values.values())
            self._groups = frozenset(name for text in texts for name in groups_of(text)) - {EVERYBODY}
        return self._groups

    def rights(self, groups: tuple[str, ...]) -> Rights | None:
        """Of the users with these groups; None: they may do everything."""
        if self.open:
            return None
        key = frozenset((*groups, EVERYBODY))
        found = self._rights.get(key)
        if found is None:
            if len(self._rights) >= MAX_SETS:
                self._rights.clear()
            found = self._rights[key] = Rights(self, key)
        return found

    def operations(self, groups: frozenset[str], address: str, name: str) -> frozenset[str]:
        """What users with these groups may do at `address`; name: the same, or `address::queue`."""
        index, address, name = self._index(address, name)
        entry = index.of(address, name) if index is not None else None
        if index is None or entry is None:
            return NOTHING
        theirs = entry.said.operations(groups)
        everywhere = theirs & READING
        # Last, and only where it can take something away: of a pattern there may be many.
        if everywhere:
            for said in {entry.said for entry in index.some(address, name)}:
                everywhere &= said.operations(groups)
        return theirs - READING | everywhere

    def against(self, groups: frozenset[str], operation: str, address: str, name: str) -> str | None:
        """The match that keeps them from it; None: there is none for (all of) it."""
        some, last = self._deciding(address, name)
        return _against(some, last, groups, operation)

    def explained(
        self, groups: frozenset[str], address: str, name: str
    ) -> list[tuple[str, bool, str | None, frozenset[str]]]:
        """See Rights.explained."""
        some, last = self._deciding(address, name)
        allowed, told = self.operations(groups, address, name), []
        for operation in OPERATIONS:
            against = _against(some, last, groups, operation)
            entry = next((entry for entry in some if entry.match == against), last)
            named = entry.said.groups(operation) if entry is not None else NOTHING
            told.append((operation, operation in allowed, entry.match if entry is not None else None, named))
        return told

    def table(self, operation: str, groups: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Patterns of addresses and whether users with these groups have the operation there, from specific to
        general: the first that matches decides. Empty where there are no permissions."""
        names = frozenset((*groups, EVERYBODY))
        found = [self._hosts[host] for host in sorted(self._hosts, reverse=True)]
        return [(entry.match, operation in entry.said.operations(names)) for index in found for entry in index.entries]

    def _deciding(self, address: str, name: str) -> tuple[list[PermissionEntry], PermissionEntry | None]:
        """See PermissionIndex.some, PermissionIndex.of."""
        index, address, name = self._index(address, name)
        return ([], None) if index is None else (index.some(address, name), index.of(address, name))

    def _index(self, address: str, name: str) -> tuple[PermissionIndex | None, str, str]:
        """Of whose host it is, and what its clients call both."""
        host, local = whose(address)
        return self._hosts.get(host), local, _local(name)[1] if host else name


def _against(
    some: Sequence[PermissionEntry], last: PermissionEntry | None, groups: frozenset[str], operation: str
) -> str | None:
    """Of entries that decide about some of it, and the one that has the last word."""
    for entry in [] if last is not None and operation not in READING else some:
        if operation not in entry.said.operations(groups):
            return entry.match
    return last.match if last is not None and operation not in last.said.operations(groups) else None


def _local(name: str) -> tuple[str, str]:
    """Whose an entry is, and what its clients call what it is about."""
    host, local = whose(name)
    if FQQN not in local:
        return host, local
    address, _, queue = local.partition(FQQN)
    return host, full_name(address, split(queue).local)


def of_settings(settings: Settings) -> Permissions:
    """As they are at the start."""
    edge = settings.edge
    return Permissions(edge.permissions, settings.engine.wildcard_delimiter, edge.permissions_required)


def not_created(user: str, detail: str) -> str:
    """What a client is told whose command an owner has not carried out, because it would have created something."""
    return (
        f"{detail}: user '{user}' lacks {ADDRESS}, {DURABLE} or {OWN} there (edge.permissions); "
        "add a group of the user, or create it first"
    )
