"""What an edge process is told when it is started, and the settings it is given.

Rule: values only. What belongs to the whole broker (memory, connections) is shared out evenly, so that all processes
together keep within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final

import msgspec

from broker.config.changes import tables_of, with_tables
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.seams.memory import available

LEAST_SHARE: Final = 100
"""The kernel shares connections out by their addresses, not by count: of a limit with fewer for each process, one would
refuse while others have room."""
PING_MS: Final = 500
STILL_MS: Final = 10_000
BATCH_BYTES: Final = 1024 * 1024
"""Of one message between them: a fifth less CPU for JMS-like messages than with 256 KiB, as over a network."""
SOCKET: Final = "edges.sock"
COMPARED: Final = 1000
"""Entries of settings that are compared in one step."""

Entry = tuple[str, str, dict[str, Any] | None]
"""Of settings that can be changed live: table, entry, values (None: it is gone)."""


class WorkerStart(msgspec.Struct):
    """number   1, 2, …; of `count`.    boot   of this start of it.    path   where the parent listens.
    sockets   acceptor → file descriptors of its listening sockets.    version   of what can be changed live."""

    number: int
    count: int
    boot: str
    path: str
    sockets: dict[str, list[int]]
    version: int
    settings: Settings


def refuse_undivided(settings: Settings, count: int) -> None:
    """Raises ConfigError for what several edge processes cannot do together, by its name."""
    edge = settings.edge
    limits = {
        "edge.max_connections": edge.max_connections,
        "edge.max_connections_per_ip": edge.max_connections_per_ip,
        **{
            f"edge.virtual_hosts.{name}.max_connections": int(table.get("max_connections", -1))
            for name, table in edge.virtual_hosts.items()
        },
        **{
            f"acceptors.{name}.connections_allowed": int(table.get("connections_allowed", -1))
            for name, table in settings.acceptors.items()
        },
    }
    for name, limit in limits.items():
        if 0 <= limit < LEAST_SHARE * count:
            raise ConfigError(
                f"{name} is {limit}, which {count} edge processes cannot share evenly; set it to "
                f"{LEAST_SHARE * count} or more, or edge.processes to 0."
            )
    if settings.tracing.endpoint:
        raise ConfigError("tracing.endpoint needs the one process; leave it empty, or set edge.processes to 0.")
    if edge.notifications:
        raise ConfigError("edge.notifications needs the one process; set it to no, or edge.processes to 0.")


def refuse_more_partitions(before: Settings, after: Settings) -> None:
    """Raises ConfigError for a live change that would have messages go where not all subscriptions are yet."""
    old, new = _partitions(before), _partitions(after)
    for entry in old.keys() | new.keys():
        if old.get(entry) != new.get(entry):
            raise ConfigError(
                f"partitions of {entry[:200]!r} cannot be changed while edge processes serve (edge.processes): put it "
                "into the config file, and start once without them."
            )


def _partitions(settings: Settings) -> dict[str, object]:
    return {name: own["partitions"] for name, own in settings.engine.addresses.items() if "partitions" in own}


def memory_shares(settings: Settings, count: int) -> tuple[int, int]:
    """Bytes that messages may take in the parent, and in each edge process; -1: no bound. Queues are in the parent."""
    limit = settings.memory.limit_bytes or available() // 2
    return (max(limit // 2, 1), max(limit // 2 // count, 1)) if limit > 0 else (-1, -1)


def settings_for(settings: Settings, number: int, count: int, memory: int) -> Settings:
    """Those of one edge process. memory: bytes that messages may take in it."""
    edge = settings.edge
    hosts = {name: _shared(table, "max_connections", count) for name, table in edge.virtual_hosts.items()}
    acceptors = {name: _shared(table, "connections_allowed", count) for name, table in settings.acceptors.items()}
    return replace(
        settings,
        edge=replace(
            edge,
            max_connections=_share(edge.max_connections, count),
            max_connections_per_ip=_share(edge.max_connections_per_ip, count),
            park_total_bytes=_share(edge.park_total_bytes, count),
            virtual_hosts=hosts,
        ),
        acceptors=acceptors,
        cluster=replace(on_one_machine(settings).cluster, id=f"edge-{number}"),
        memory=replace(settings.memory, limit_bytes=memory),
    )


def changed(before: Settings, after: Settings) -> Iterator[list[Entry]]:
    """Entries of what can be changed live that are others now, in pieces: each is found in a short time."""
    old, new = tables_of(before), tables_of(after)
    for table in new:
        had, has = old[table], new[table]
        if had is has:
            continue
        names = chain(has, (entry for entry in had if entry not in has))
        while some := list(islice(names, COMPARED)):
            yield [(table, entry, has.get(entry)) for entry in some if had.get(entry) != has.get(entry)]


def with_changed(settings: Settings, entries: Sequence[Entry]) -> Settings:
    """The same with these entries."""
    tables = tables_of(settings)
    own = {name: dict(tables[name]) for name in {table for table, _, _ in entries}}
    for table, entry, values in entries:
        if values is None:
            own[table].pop(entry, None)
        else:
            own[table][entry] = values
    return with_tables(settings, {**tables, **own})


def on_one_machine(settings: Settings) -> Settings:
    """How parent and edge processes look after each other. That one has ended the kernel says: pings are for one that
    stands still, which nobody need replace in a hurry."""
    cluster = replace(settings.cluster, ping_ms=PING_MS, dead_after_ms=STILL_MS, batch_bytes=BATCH_BYTES, linger_ms=0)
    return replace(settings, cluster=cluster)


def _share(limit: int, count: int) -> int:
    return -(-limit // count) if limit > 0 else limit


def _shared(table: dict[str, object], name: str, count: int) -> dict[str, object]:
    limit = table.get(name)
    return {**table, name: _share(limit, count)} if isinstance(limit, int) else table
