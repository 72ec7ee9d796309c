"""The bound of a process's memory, and buffers that fit into it.

Rule: asked once, at the start; a container whose limit is changed later is started anew.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from broker.config.settings import Settings
from broker.core.memory import Memory
from broker.seams.memory import available, growth

log = logging.getLogger("stampede.memory")


def memory_of(settings: Settings) -> Memory:
    """The account of this process, by memory.limit_bytes."""
    limit = settings.memory.limit_bytes or available() // 2
    if limit <= 0:
        log.info("no bound for messages in memory (memory.limit_bytes)")
        return Memory()
    log.info("messages may take %s MiB of memory (memory.limit_bytes)", f"{limit >> 20:,}")
    return Memory(limit, growth())


def fitted(settings: Settings, limit: int) -> Settings:
    """Buffers that are not messages in queues take a part of the bound at most: on the way to the disk (twice), waiting
    for room."""
    journal, edge = settings.journal, settings.edge
    return replace(
        settings,
        journal=replace(journal, max_inflight_bytes=min(journal.max_inflight_bytes, max(limit // 8, 1))),
        edge=replace(edge, park_total_bytes=min(edge.park_total_bytes, max(limit // 8, 1))),
    )
