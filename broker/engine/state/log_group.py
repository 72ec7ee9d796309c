"""Records of one turn that count together or not at all.

Rule: what lasts becomes one group of one level; transient records, which no restart sees, stand behind it. Must not
know what they mean.
"""

from __future__ import annotations

from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, LogRecord, RunRecord, SettleRecord


def grouped(slot: int, records: list[LogRecord]) -> list[LogRecord]:
    """The same records, counting together or not at all; transient ones, which no restart sees, stand behind."""
    # Groups within groups become one: the log knows one level.
    if any(type(r) is GroupRecord for r in records):
        records = [part for r in records for part in (r.records if isinstance(r, GroupRecord) else (r,))]
    lasting = [r for r in records if not _transient(r)]
    rest = [r for r in records if _transient(r)]
    # A group of one would be bytes for nothing.
    if len(lasting) > 1:
        return [GroupRecord(slot, lasting), *rest]  # type: ignore[arg-type]
    return lasting + rest


def _transient(record: LogRecord) -> bool:
    if isinstance(record, RunRecord):
        return bool(record.run.flags & TRANSIENT)
    return isinstance(record, SettleRecord) and not record.durable
