"""Queues as they were, made again in another broker from the archive alone: what is left when a broker is lost.

What a queue held at a time is what had been put into it by then (ENQUEUED) and had not left it (ACKED, EXPIRED,
DEAD_LETTERED, PURGED, discarded). One row says of a deleted queue that everything up to that message is gone.

Rule: a message that may have left is not sent: who has consumed it once would get it twice. Ids are `rebuild:<id>/…`,
and a note says how far receipts have come, so that it may be run again, also after a kill (replay.py has the same two).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ..errors import PipelineError
from ..progress import Say, tasks
from ..store.manifests import Archive
from .replay import ORDER, left, put_rows

_WAITING: Final = """
    with put as (
        select slot, offset, index, message_id, address, queue,
               cast(substring_index(message_id, '-', -1) as bigint) as number
        from events where event = 'ENQUEUED' and queue is not null and (ts is null or ts <= {at})
    ), gone as (
        select distinct message_id, queue from events
        where (event in ('ACKED', 'EXPIRED', 'DEAD_LETTERED') or event = 'NACKED' and reason = 'discarded'
               or event = 'PURGED' and reason <> 'queue deleted') and (ts is null or ts <= {at})
    ), deleted as (
        select slot, queue, max(cast(substring_index(message_id, '-', -1) as bigint)) as last from events
        where event = 'PURGED' and reason = 'queue deleted' and (ts is null or ts <= {at}) group by slot, queue
    )
    select put.slot, put.offset, put.index, put.message_id, put.address, put.queue, m.headers, m.body, m.body_ref,
           if(map_contains_key(m.headers, 'priority') or m.priority <> 4, m.priority, null) as priority, m.size,
           if(put.queue = put.address, concat('/queue/', put.address), concat('/queue/', put.address, '::', put.queue))
               as destination
    from put join messages m on m.message_id = put.message_id
    left anti join gone on gone.message_id = put.message_id and gone.queue = put.queue
    left join deleted on deleted.slot = put.slot and deleted.queue = put.queue
    where (deleted.last is null or put.number > deleted.last)
      and (m.expires is null or m.expires > {now})
"""


def waiting(spark: Any, archive: Archive, at: str = "") -> Any:
    """One row per message and queue that held it at that time (UTC; "": at the end of the archive)."""
    folder = archive.path("")
    state = archive.existing()
    for view in ("messages", "events"):
        if not (paths := archive.live(view, state)):
            raise PipelineError(f"{folder} holds no {view}: there is nothing to rebuild")
        spark.read.parquet(*paths).createOrReplaceTempView(view)
    moment = "timestamp '9999-01-01'"
    if at:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d(\.\d+)?)?)?", at):
            raise PipelineError(f'--at is a time such as "2026-11-24 13:00", not {at!r}')
        moment = f"timestamp '{at}'"
    return spark.sql(_WAITING.format(at=moment, now="current_timestamp()"))


def count(spark: Any, folder: str, at: str, say: Say) -> list[dict[str, Any]]:
    """A dry run: queue, messages, bytes."""
    with tasks(spark, say, "of what would be sent counted"):
        waiting(spark, Archive(folder, spark), at).createOrReplaceTempView("waiting")
        found = spark.sql(
            "select destination, count(*) as messages, sum(size) as bytes from waiting group by 1 order by destination"
        )
        return [row.asDict() for row in found.collect()]


def rebuild(spark: Any, folder: str, url: str, id: str, at: str, rate: float, say: Say) -> int:
    """Sends them, those of each slot in their order. Returns how many this run still had to send."""
    from pyspark.sql import functions as f

    if not re.fullmatch(r"[\w.-]{1,100}", id):
        raise PipelineError("an id of a rebuild has letters, digits, dots, dashes and underscores only")
    archive = Archive(folder, spark)
    archive.existing()  # before a lock makes its folder
    lock = archive.lock()
    try:
        name = f"rebuilds/{id}.json"
        wanted = {"at": at, "manifest": archive.load().number}
        if archive.store.exists(name):
            known = json.loads(archive.store.read(name))
            if known != wanted:
                raise PipelineError(
                    f"rebuild {id} was of another time or state of the archive ({archive.path(name)}): use another id"
                )
        else:
            archive.store.write(name, [json.dumps(wanted).encode()])
        note = f"rebuilds/{id}.done"
        found = left(archive, note, waiting(spark, archive, at))
        number = f.concat_ws("/", f.lit(f"rebuild:{id}"), *ORDER)
        sent = found.withColumn("id", number).coalesce(1).sortWithinPartitions(*ORDER)
        return put_rows(spark, archive, lock, note, sent, {"url": url, "rate": str(rate)}, say)
    finally:
        lock.close()
