"""Rows of the read API as columns: the schema, and Arrow batches of it.

Rule: a value that is not there is null, never a made-up one: an event without a time has no time. Bytes that are not
UTF-8 stay what they are in `body`; names and values of headers are replaced character by character.
"""

from __future__ import annotations

from typing import Any, Final

SCHEMA: Final = (
    "slot int, offset bigint, index int, epoch bigint, ts timestamp, event string, address string, queue string, "
    "message_id string, headers map<string,string>, body binary, size bigint, priority int, expires timestamp, "
    "group_id string, consumer string, attempt int, reason string, body_ref string"
)
TEXT: Final = ", text string"


def arrow_schema(text: bool) -> Any:
    """The same for Arrow."""
    import pyarrow as pa

    stamp = pa.timestamp("us", tz="UTC")
    fields = [
        ("slot", pa.int32()), ("offset", pa.int64()), ("index", pa.int32()), ("epoch", pa.int64()), ("ts", stamp),
        ("event", pa.string()), ("address", pa.string()), ("queue", pa.string()), ("message_id", pa.string()),
        ("headers", pa.map_(pa.string(), pa.string())), ("body", pa.binary()), ("size", pa.int64()),
        ("priority", pa.int32()), ("expires", stamp), ("group_id", pa.string()), ("consumer", pa.string()),
        ("attempt", pa.int32()), ("reason", pa.string()), ("body_ref", pa.string()),
    ]  # fmt: skip
    return pa.schema([*fields, ("text", pa.string())] if text else fields)


def _headers(row: Any) -> list[tuple[str, str]]:
    """The first of a name counts, as in STOMP."""
    found: dict[str, str] = {}
    for header in row.headers:
        found.setdefault(header.name.decode(errors="replace"), header.value.decode(errors="replace"))
    return list(found.items())


def _text(row: Any) -> str | None:
    try:
        return str(row.body.decode()) if not row.body_ref else None
    except UnicodeDecodeError:
        return None


def record_batch(slot: int, rows: list[Any], schema: Any, bodies: bool) -> Any:
    """An Arrow batch. `bodies`: they were asked for, so an empty one is empty and not absent."""
    import pyarrow as pa

    columns: list[Any] = [
        [slot] * len(rows), [r.offset for r in rows], [r.index for r in rows], [r.epoch for r in rows],
        [r.ts_ms * 1000 or None for r in rows], [r.event for r in rows], [r.address for r in rows],
        [r.queue or None for r in rows], [r.message_id for r in rows], [_headers(r) for r in rows],
        [r.body if bodies and (r.body or not r.body_ref) else None for r in rows], [r.size for r in rows],
        [r.priority for r in rows], [r.expires_ms * 1000 or None for r in rows], [r.group_id or None for r in rows],
        [r.consumer or None for r in rows], [r.attempt for r in rows], [r.reason or None for r in rows],
        [r.body_ref or None for r in rows],
    ]  # fmt: skip
    if "text" in schema.names:
        columns.append([_text(r) for r in rows])
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
