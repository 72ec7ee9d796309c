"""Who may do what: the table `edge.permissions`, asked by groups and address, and remembered.

As in Artemis: the most specific match of an address decides, alone; what it does not say, and what no match is about,
is for nobody. A table that was never filled means that everybody who is let in may do everything; one that was emptied
means the opposite. A queue is its address' affair, unless an entry names just that `address::queue`: then it decides,
whatever name the client used for the queue.

A wildcard subscription needs more than its pattern's own match: an entry for some of its addresses counts for it as
well, or `#` would show everything that an entry for `secret.#` keeps from others.

Of a virtual host's names its own entries decide, and no others; a host without any is for nobody once there are some
elsewhere.

Rule: pure; decides and never acts. Must not know sessions, users' names or frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.config.permissions import EVERYBODY, FQQN, OPERATIONS, groups_of
from broker.core.virtual_host import split, whose
from broker.engine.address.address_settings import covers, is_pattern, matches, overlap, specificity

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


class _Entry:
    """One match: who may do what there."""

    __slots__ = ("_settings", "match", "words")

    def __init__(self, match: str, words: list[str], settings: Mapping[str, Any]) -> None:
        self.match = match
        self.words = words
        self._settings = settings

    def operations(self, groups: frozenset[str]) -> frozenset[str]:
        return frozenset(operation for operation, text in self._settings.items() if groups_of(text) & groups)

    def groups(self, operation: str) -> frozenset[str]:
        return groups_of(self._settings.get(operation, ""))


class Permissions:
    """The whole table: match → its settings. delimiter: between the words of addresses.

    closed   an empty table is for nobody: there were entries before, or edge.permissions_required."""

    def __init__(self, table: Mapping[str, Mapping[str, Any]], delimiter: str = ".", closed: bool = False) -> None:
        self._delimiter = delimiter
        self._hosts: dict[str, _Matches] = {}
        """By virtual host."""
        theirs: dict[str, dict[str, str]] = {"": {}}
        for name in table:
            host, local = whose(name)
            address, _, queue = local.partition(FQQN)
            theirs.setdefault(host, {})[full_name(address, split(queue).local if queue else None)] = name
        for host, names in theirs.items():
            self._hosts[host] = _Matches(names, table, delimiter)
        self.open = not table and not closed
        """Everybody may do everything."""
        self._rights: dict[frozenset[str], Rights] = {}
        self.groups = frozenset(
            name for entry in table.values() for text in entry.values() for name in groups_of(text)
        ) - {EVERYBODY}

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
        deciding, whole = self._deciding(address, name)
        if not whole:
            return NOTHING
        everywhere = frozenset.intersection(*(entry.operations(groups) for entry in deciding))
        return deciding[-1].operations(groups) - READING | everywhere & READING

    def against(self, groups: frozenset[str], operation: str, address: str, name: str) -> str | None:
        """The match that keeps them from it; None: there is none for (all of) it."""
        deciding, whole = self._deciding(address, name)
        for entry in deciding[-1:] if whole and operation not in READING else deciding:
            if operation not in entry.operations(groups):
                return entry.match
        return None

    def explained(
        self, groups: frozenset[str], address: str, name: str
    ) -> list[tuple[str, bool, str | None, frozenset[str]]]:
        """See Rights.explained."""
        allowed, told = self.operations(groups, address, name), []
        deciding, whole = self._deciding(address, name)
        for operation in OPERATIONS:
            against = self.against(groups, operation, address, name)
            entry = next((entry for entry in deciding if entry.match == against), deciding[-1] if whole else None)
            named = entry.groups(operation) if entry is not None else NOTHING
            told.append((operation, operation in allowed, entry.match if entry is not None else None, named))
        return told

    def table(self, operation: str, groups: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Patterns of addresses and whether users with these groups have the operation there, from specific to
        general: the first that matches decides. Empty where there are no permissions."""
        names = frozenset((*groups, EVERYBODY))
        found = [self._hosts[host] for host in sorted(self._hosts, reverse=True)]
        return [(entry.match, operation in entry.operations(names)) for matches in found for entry in matches.entries]

    def _deciding(self, address: str, name: str) -> tuple[list[_Entry], bool]:
        """The entries that have a say there, and whether they speak of all of it. Several only for a pattern: before
        the entry that stands for all of its addresses those which decide about some of them."""
        host, local = whose(address)
        matches = self._hosts.get(host)
        if matches is None:
            return [], False
        if host:
            queue = name.partition(FQQN)[2]
            name = full_name(local, split(queue).local if queue else None)
        return matches.deciding(local, name)


class _Matches:
    """The entries of one virtual host. names: as its clients have them → as the table has them."""

    def __init__(self, names: Mapping[str, str], table: Mapping[str, Mapping[str, Any]], delimiter: str) -> None:
        self._delimiter = delimiter
        order = sorted(names, key=lambda name: (not self._is_pattern(name), specificity(name, delimiter)), reverse=True)
        entries = [(name, _Entry(names[name], name.split(delimiter), table[names[name]])) for name in order]
        self._queues = {name: entry for name, entry in entries if FQQN in name}
        self.entries = [entry for name, entry in entries if FQQN not in name]
        """From specific to general, exact names first."""

    def deciding(self, address: str, name: str) -> tuple[list[_Entry], bool]:
        """See Permissions."""
        queue = self._queues.get(name)
        words = address.split(self._delimiter)
        if not self._is_pattern(address):
            if queue is not None:
                return [queue], True
            found = next((entry for entry in self.entries if matches(entry.words, words)), None)
            return ([], False) if found is None else ([found], True)
        some: list[_Entry] = []
        last = [] if queue is None else [queue]  # a queue of many addresses: none of them is shown by its name
        for entry in self.entries:
            if overlap(entry.words, words):
                some.append(entry)
                if covers(entry.words, words):
                    return some + last, True
        return some + last, False

    def _is_pattern(self, name: str) -> bool:
        return is_pattern(name, self._delimiter)


def not_created(user: str, detail: str) -> str:
    """What a client is told whose command an owner has not carried out, because it would have created something."""
    return (
        f"{detail}: user '{user}' lacks {ADDRESS}, {DURABLE} or {OWN} there (edge.permissions); "
        "add a group of the user, or create it first"
    )
