"""What an edge process is told when it is started, and the settings it is given.

Rule: values only. What belongs to the whole broker (memory, connections) is shared out evenly, so that all processes
together keep within it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from broker.config.changes import tables_of, with_tables
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.seams.memory import available

AUTO: Final = "auto"
MOST: Final = 64
LEAST_CORES: Final = 4
"""With fewer the one process is the faster one (docs/benchmarks.md)."""
LEAST_SHARE: Final = 100
"""The kernel shares connections out by their addresses, not by count: of a limit with fewer for each process, one would
refuse while others have room."""
PING_MS: Final = 500
STILL_MS: Final = 10_000
BATCH_BYTES: Final = 1024 * 1024
"""Of one message between them: a fifth less CPU for JMS-like messages than with 256 KiB, as over a network."""
SOCKET: Final = "edges.sock"


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


def processes_of(settings: Settings) -> int:
    """How many edge processes there shall be; 0: none, clients are served by the one process. Raises ConfigError."""
    wanted = settings.edge.processes
    if wanted == AUTO:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, MOST) if cores >= LEAST_CORES else 0
    if not (wanted.isascii() and wanted.isdigit() and int(wanted) <= MOST):
        raise ConfigError(f"edge.processes is {wanted[:50]!r}; set it to auto, or a number from 0 (none) to {MOST}.")
    return int(wanted)


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


def changed(before: Settings, after: Settings) -> list[tuple[str, str, Any]]:
    """Entries of what can be changed live that are others now: table, entry, values (None: it is gone)."""
    old, new = tables_of(before), tables_of(after)
    return [
        (table, entry, new[table].get(entry))
        for table in new
        if old[table] is not new[table]
        for entry in old[table].keys() | new[table].keys()
        if old[table].get(entry) != new[table].get(entry)
    ]


def with_changed(settings: Settings, entries: Sequence[tuple[str, str, Any]]) -> Settings:
    """The same with these entries."""
    tables = {table: dict(own) for table, own in tables_of(settings).items()}
    for table, entry, values in entries:
        if values is None:
            tables[table].pop(entry, None)
        else:
            tables[table][entry] = values
    return with_tables(settings, tables)


def on_one_machine(settings: Settings) -> Settings:
    """How parent and edge processes look after each other. That one has ended the kernel says: pings are for one that
    stands still, which nobody need replace in a hurry."""
    cluster = replace(settings.cluster, ping_ms=PING_MS, dead_after_ms=STILL_MS, batch_bytes=BATCH_BYTES)
    return replace(settings, cluster=cluster)


def _share(limit: int, count: int) -> int:
    return -(-limit // count) if limit > 0 else limit


def _shared(table: dict[str, object], name: str, count: int) -> dict[str, object]:
    limit = table.get(name)
    return {**table, name: _share(limit, count)} if isinstance(limit, int) else table
