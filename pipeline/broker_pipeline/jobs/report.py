"""A report of an archive: per address and hour what came, how large, how long it took, what failed.

Written as one HTML page for people (page.py), as JSON, and as Parquet, a file for each section, for programs.

Rule: only what rows say. A latency is there when both events have a time; an hour without messages is not in it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from broker.seams.clock import SystemClock

from ..errors import PipelineError
from ..progress import Progress, Say, tasks
from ..store.files import write_pieces
from ..store.manifests import Archive, State
from .page import page

_HOURS: Final = """
    select address, date_format(ts, 'yyyy-MM-dd HH:00') as hour, count(*) as messages, sum(size) as bytes,
           percentile_approx(size, 0.5) as size_p50, percentile_approx(size, 0.99) as size_p99,
           count(distinct slot) as slots
    from messages where ts is not null group by 1, 2 order by 1, 2
"""
_LATENCIES: Final = """
    with begun as (select message_id, min(ts) as at from events where event = 'ENQUEUED' group by 1),
         ended as (select message_id, address, event, min(ts) as at from events
                   where event in ('DELIVERED', 'ACKED') and ts is not null group by 1, 2, 3)
    select address, date_format(begun.at, 'yyyy-MM-dd HH:00') as hour, event, count(*) as count,
           percentile_approx(unix_millis(ended.at) - unix_millis(begun.at), array(0.5, 0.95, 0.99)) as ms
    from begun join ended using (message_id) group by 1, 2, 3 order by 1, 2, 3
"""
_EVENTS: Final = "select address, event, count(*) as count from events group by 1, 2 order by 1, 2"
_DEAD: Final = """
    select address, coalesce(reason, 'unknown') as reason, count(*) as count,
           slice(collect_list(message_id), 1, 5) as samples
    from events where event = 'DEAD_LETTERED' group by 1, 2 order by count desc
"""
_UNUSUAL: Final = """
    with hours as (select address, date_trunc('HOUR', ts) as at, count(*) as messages from messages
                   where ts is not null group by 1, 2),
         known as (select address, hour(at) as hour, avg(messages) as usual, count(*) as days from hours group by 1, 2)
    select hours.address, date_format(at, 'yyyy-MM-dd HH:00') as hour, messages, round(usual, 1) as usual
    from hours join known on hours.address = known.address and hour(at) = known.hour
    where days >= 3 and (messages > 3 * usual or messages < usual / 3) order by at
"""
_FATES: Final = """
    with put as (select address, count(*) as enqueued from events where event = 'ENQUEUED' group by 1),
         ends as (select address, count_if(event = 'NACKED') as failed_deliveries,
                         count_if(event = 'ACKED') as acked, count_if(event = 'EXPIRED') as expired,
                         count_if(event = 'DEAD_LETTERED') as dead, count_if(event = 'PURGED') as purged
                  from events where event <> 'ENQUEUED' group by 1)
    select address, enqueued, coalesce(acked, 0) as acked, coalesce(expired, 0) as expired, coalesce(dead, 0) as dead,
           coalesce(purged, 0) as purged, coalesce(failed_deliveries, 0) as failed_deliveries,
           coalesce(round(failed_deliveries / enqueued, 4), 0.0) as failed_per_message,
           coalesce(round((expired + dead) / enqueued, 4), 0.0) as lost_share
    from put left join ends using (address) order by address
"""
_BACKLOG: Final = """
    with moves as (select address, date_format(ts, 'yyyy-MM-dd HH:00') as hour,
                          sum(case when event = 'ENQUEUED' then 1 when event = 'DELIVERED' then 0
                                   when event = 'NACKED' and reason is null then 0
                                   when event = 'PURGED' and reason = 'queue deleted' then 0 else -1 end) as change,
                          count_if(event in ('ACKED', 'EXPIRED', 'DEAD_LETTERED')) as gone
                   from events where ts is not null group by 1, 2),
         levels as (select address, hour, gone, sum(change) over (partition by address order by hour) as waiting
                    from moves)
    select address, hour, waiting, case when waiting = 0 then 0.0 when gone > 0 then round(60 * waiting / gone, 1) end
           as minutes_to_empty
    from levels order by address, hour
"""
_SLOTS: Final = """
    with counted as (select address, slot, count(*) as messages from messages group by 1, 2),
         summed as (select address, count(*) as slots, max(messages) as busiest, sum(messages) as messages,
                           max_by(slot, messages) as slot from counted group by 1)
    select address, slots, messages, slot as busiest_slot, round(busiest / messages, 3) as share,
           round(busiest * slots / messages, 2) as times_the_average
    from summed order by times_the_average desc, address
"""
_GROUPS: Final = """
    with counted as (select address, group_id, count(*) as messages from messages where group_id is not null
                     group by 1, 2)
    select address, group_id, messages, round(messages / sum(messages) over (partition by address), 3) as share
    from counted order by messages desc, address, group_id limit 50
"""
SECTIONS: Final = {
    "fates": _FATES,
    "backlog": _BACKLOG,
    "slots": _SLOTS,
    "groups": _GROUPS,
    "hours": _HOURS,
    "latencies": _LATENCIES,
    "events": _EVENTS,
    "dead_letters": _DEAD,
    "unusual": _UNUSUAL,
}


@dataclass(frozen=True)
class Report:
    """tables: section → an Arrow table, of the same columns whatever the archive holds."""

    folder: str
    made_ms: int
    manifests: int
    tables: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        """Section → rows."""
        about = {"folder": self.folder, "made_ms": self.made_ms, "manifests": self.manifests}
        return about | {name: table.to_pylist() for name, table in self.tables.items()}

    def write(self, stem: str) -> None:
        """stem.html, stem.json, and stem.parquet/, a folder. Each file is whole, the page comes last."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        found = self.plain()
        for name, table in self.tables.items():
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd")
            write_pieces(f"{stem}.parquet/{name}.parquet", [sink.getvalue().to_pybytes()])
        write_pieces(f"{stem}.json", [json.dumps(found, indent=1, default=str).encode()])
        write_pieces(f"{stem}.html", [page(found).encode()])


def report(spark: Any, folder: str, say: Say) -> Report:
    """Raises PipelineError."""
    import pyarrow as pa

    archive = Archive(folder, spark)
    state = archive.load()
    for view in ("messages", "events"):
        paths = archive.live(view, state)
        if not paths:
            raise PipelineError(f"{folder} holds no {view}: stampede-pipeline archive {folder} first")
        spark.read.parquet(*paths).createOrReplaceTempView(view)
    tables: dict[str, Any] = {}
    progress = Progress(say, len(SECTIONS), "sections of the report")
    for name, sql in SECTIONS.items():
        progress.at(len(tables))
        with tasks(spark, say, f"of section {name} of the report"):
            tables[name] = spark.sql(sql).toArrow()
    numbers = pa.schema([(name, pa.int64()) for name in GROWTH])
    tables["growth"] = pa.Table.from_pylist([growth(state, archive.store.free())], numbers)
    return Report(folder, SystemClock().wall_ms(), state.number, tables)


GROWTH: Final = ("days", "bytes", "bytes_per_day", "free_bytes", "days_until_full")


def growth(state: State, free: int | None) -> dict[str, Any]:
    """Bytes the archive has taken per day, and in how many days its disk is full if it goes on so; null: no telling.

    Of the last seven days that have messages, the newest left out when there are others: it is not over yet."""
    days: dict[str, int] = defaultdict(int)
    for file in state.files.values():
        days[file.date] += file.nbytes
    counted = [days[day] for day in sorted(days)]
    counted = (counted[:-1] or counted)[-7:]
    daily = sum(counted) // len(counted) if counted else 0
    return {
        "days": len(days), "bytes": sum(days.values()), "bytes_per_day": daily, "free_bytes": free,
        "days_until_full": free // daily if daily and free is not None else None,
    }  # fmt: skip
