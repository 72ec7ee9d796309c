"""Rows as columns: the schema, and Arrow batches of it.

Rule: a value that is not there is null, never a made-up one: an event without a time has no time.
"""

from __future__ import annotations

from typing import Any, Final

from broker.core.strict_numbers import natural

SCHEMA: Final = (
    "slot int, offset bigint, index int, epoch bigint, ts timestamp, event string, address string, queue string, "
    "message_id string, headers map<string,string>, body binary, size bigint, priority int, expires timestamp, "
    "group_id string, consumer string, attempt int, reason string, body_ref string"
)
TEXT: Final = ", text string"
VIEW: Final = ", view string"
MS_DIGITS: Final = 15
"""Of a time in milliseconds: a column of microseconds has no room for more."""


def arrow_schema(text: bool, view: bool = False) -> Any:
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
    if text:
        fields.append(("text", pa.string()))
    if view:
        fields.append(("view", pa.string()))
    return pa.schema(fields)


def _text(body: bytes | None) -> str | None:
    try:
        return body.decode() if body is not None else None
    except UnicodeDecodeError:
        return None


def _named(values: list[Any], numbers: Any) -> Any:
    """Strings by their numbers; a number below 0 is null."""
    import numpy as np
    import pyarrow as pa

    chosen = pa.array(numbers.astype(np.int32), mask=numbers < 0)
    return pa.array([value if isinstance(value, str) else None for value in values], pa.string()).take(chosen)


def _time(milliseconds: Any) -> Any:
    """0 is none."""
    import pyarrow as pa

    return pa.array(milliseconds * 1000, pa.timestamp("us", tz="UTC"), mask=milliseconds == 0)


def columns(schema: Any, values: list[Any], blocks: list[Any], **given: Any) -> Any:
    """A batch of NumPy columns: numbers, numbers of `values` and `blocks`; what is not given is null."""
    import numpy as np
    import pyarrow as pa

    count = len(given["slot"])
    made: dict[str, Any] = {name: pa.array(given[name]) for name in ("slot", "offset", "index", "epoch")}
    for name in ("size", "priority", "attempt"):
        if name in given:
            made[name] = pa.array(given[name])
    for name in ("ts", "expires"):
        if name in given:
            made[name] = _time(given[name])
    named = ("address", "queue", "reason", "consumer")
    for name, source in (*zip(named, named, strict=True), ("body_ref", "reference")):
        if source in given:
            made[name] = _named(values, given[source])
    event = given["event"]
    made["event"] = pa.repeat(event, count) if isinstance(event, str) else _named(values, event)
    if "view" in schema.names:
        made["view"] = pa.repeat(given["view"], count)
    slots, ids = (pa.array(given[name]).cast(pa.string()) for name in ("slot", "id"))
    made["message_id"] = pa.compute.binary_join_element_wise(slots, ids, "-")
    if "headers" in given:
        chosen = pa.array(given["headers"].astype(np.int32))
        maps = pa.array([list(header.map.items()) for header in blocks], schema.field("headers").type)
        made["headers"] = maps.take(chosen)
        made["group_id"] = pa.array([header.group for header in blocks], pa.string()).take(chosen)
        made["reason"] = pa.array([header.reason for header in blocks], pa.string()).take(chosen)
    if given.get("body") is not None:
        made["body"] = given["body"]
        if "text" in schema.names:
            made["text"] = pa.array([_text(body) for body in given["body"].to_pylist()], pa.string())
    arrays = [
        made[field.name].cast(field.type) if field.name in made else pa.nulls(count, field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def taken_table(taken: list[Any], text: bool) -> Any:
    """Messages of consume mode (queue_consumer.Taken). Positions in the log are not known to a consumer: null."""
    import pyarrow as pa

    schema = arrow_schema(text)

    def times(name: str) -> Any:
        found = [natural(message.headers.get(name, ""), MS_DIGITS) for message in taken]
        return pa.array([value * 1000 if value else None for value in found], pa.int64())

    made = {
        "slot": pa.array([int(message.id.partition("-")[0]) for message in taken]),
        "ts": times("ingress-timestamp"),
        "expires": times("expires"),
        "address": pa.array([message.address for message in taken]),
        "message_id": pa.array([message.id for message in taken]),
        "headers": pa.array([list(message.headers.items()) for message in taken], schema.field("headers").type),
        "body": pa.array([message.body for message in taken], pa.binary()),
        "size": pa.array([message.size for message in taken]),
        "priority": pa.array([_priority(message.headers.get("priority", "")) for message in taken]),
        "group_id": pa.array([message.headers.get("JMSXGroupID") for message in taken], pa.string()),
        "attempt": pa.array([message.attempt for message in taken]),
        "body_ref": pa.array([message.body_ref for message in taken], pa.string()),
    }
    if text:
        made["text"] = pa.array([_text(message.body) for message in taken], pa.string())
    arrays = [
        made[field.name].cast(field.type) if field.name in made else pa.nulls(len(taken), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _priority(text: str) -> int:
    found = natural(text, 3)
    return 4 if found is None else found
