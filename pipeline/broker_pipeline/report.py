"""A report of an archive: per address and hour what came, how large, how long it took, what failed.

Written as JSON for programs and as one HTML page for people (page.py).

Rule: only what rows say. A latency is there when both events have a time; an hour without messages is not in it.
"""

from __future__ import annotations

from typing import Any, Final

from broker.seams.clock import SystemClock

from .errors import PipelineError
from .manifests import Archive

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
SECTIONS: Final = {
    "hours": _HOURS,
    "latencies": _LATENCIES,
    "events": _EVENTS,
    "dead_letters": _DEAD,
    "unusual": _UNUSUAL,
}


def report(spark: Any, folder: str) -> dict[str, Any]:
    """Section → rows. Raises PipelineError."""
    archive = Archive(folder)
    state = archive.load()
    for view in ("messages", "events"):
        paths = archive.live(view, state)
        if not paths:
            raise PipelineError(f"{folder} holds no {view}: stampede-pipeline archive {folder} first")
        spark.read.parquet(*paths).createOrReplaceTempView(view)
    found: dict[str, Any] = {"folder": folder, "made_ms": SystemClock().wall_ms(), "manifests": state.number}
    for name, sql in SECTIONS.items():
        found[name] = [row.asDict() for row in spark.sql(sql).collect()]
    return found
