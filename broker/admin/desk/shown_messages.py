"""Messages as operators see and send them: headers, a piece of the body, and where a dead letter came from.

Rule: bytes in, JSON out, and back without loss: `raw` is the message as it is stored. Must not know owners.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from broker.core.message import (
    BLOB,
    DEATH,
    DURABLE,
    ESCAPED,
    GROUPED,
    LABELS,
    NO_IDS,
    ORIGINAL_ID,
    PART,
    REDELIVERED,
    TEXT,
    TRANSIENT,
    UNIQUE,
    WAS_DURABLE,
    Run,
)
from broker.engine.publishing.recurrence import split as recurrence
from broker.selector.heads import body_of, escaped, head_of, key, raw, text

_ADDRESS, _QUEUE, _REASON = key("_AMQ_ORIG_ADDRESS"), key("_AMQ_ORIG_QUEUE"), key("dead-letter-reason")
NAMED = {"address": "_AMQ_ORIG_ADDRESS", "queue": "_AMQ_ORIG_QUEUE", "reason": '"dead-letter-reason"'}
"""Of DeadLetterOrigin, as selectors call them."""
MAX_HEADERS = 200
"""Shown of one message."""


class DeadLetterOrigin(NamedTuple):
    """Where a dead letter comes from, and why it left; empty: it does not say."""

    address: str
    queue: str
    reason: str


def origin(run: Run, index: int) -> DeadLetterOrigin:
    """Of message `index`."""
    head = head_of(run, index)
    found = [raw(head, name) for name in (_ADDRESS, _QUEUE, _REASON)]
    return DeadLetterOrigin(*["" if value is None else text(value) for value in found])


def comes_from(given: Mapping[str, str]) -> str | None:
    """A selector for dead letters of which that is so, by NAMED; None: for all."""
    said = []
    for name, value in given.items():
        said.append(f"{NAMED[name]} = {quoted(value)}" if value else f"({NAMED[name]} IS NULL OR {NAMED[name]} = '')")
    return " AND ".join(said) or None


def from_elsewhere(addresses: Collection[str], queues: Iterable[tuple[str, str]]) -> list[str]:
    """Selectors for dead letters that come from none of these addresses ("": they say one), nor from these queues
    (address, queue; "": none is said) of others."""
    address, queue = NAMED["address"], NAMED["queue"]
    said = [f"({address} IS NOT NULL AND {address} <> '')"] if "" in addresses else []
    if named := [quoted(each) for each in sorted(addresses) if each]:
        said.append(f"({address} IS NULL OR {address} NOT IN ({', '.join(named)}))")
    for of, name in queues:
        other = f"{queue} IS NULL OR {queue} <> {quoted(name)}" if name else f"{queue} <> ''"
        said.append(f"({address} IS NULL OR {address} <> {quoted(of)} OR {other})")
    return said


def quoted(value: str) -> str:
    """As a text in a selector."""
    return "'" + value.replace("'", "''") + "'"


def stored(run: Run, index: int) -> bytes:
    """Headers, empty line, body, NUL; of a large one without its body."""
    return run.lines + run.records[index]


def unlabelled(message: bytes) -> bytes:
    """Without what made it a dead letter."""
    at = 0
    while message.startswith(LABELS, at):
        at = message.index(b"\n", at) + 1
    return message[at:]


def outdated(message: bytes, id: int, address: str, queue: str, now: int) -> bytes:
    """As a message that has expired there, now (engine/routing/redelivery.expire)."""
    origin = b"_AMQ_ORIG_ADDRESS:%b\n_AMQ_ORIG_QUEUE:%b\n" % (escaped(address), escaped(queue))
    why = b"_AMQ_ACTUAL_EXPIRY:%d\n%bexpired\n" % (now, DEATH)
    return b"%b%d\n" % (ORIGINAL_ID, id) + origin + why + unlabelled(message)


def says_when(run: Run) -> bool:
    """May its messages rest where what is sent again and again does."""
    return all([recurrence(record)[0] is not None for record in run.records])


def onward(run: Run, records: list[bytes], outdated: bool = False) -> Run:
    """The messages of the run as a client would send them again; records: their bytes. outdated: see there; they are
    there for ever."""
    flags = run.flags & (DURABLE | ESCAPED | GROUPED | BLOB | TEXT)
    if run.flags & WAS_DURABLE:
        flags |= DURABLE
    if outdated:
        flags |= ESCAPED  # the address that it is labelled with may be
    nbytes = sum(map(len, records)) + (run.blob.length + 1 if run.blob is not None else 0)
    return Run(NO_IDS, b"", records, nbytes, flags, run.priority, 0 if outdated else run.expires, blob=run.blob)


def row(slot: int, run: Run, index: int, preview: int, whole: bool) -> dict[str, Any]:
    """One message in a list. preview: bytes of the body.    whole: with `raw`."""
    head = head_of(run, index)
    headers: list[list[str]] = []
    for line in head[1:].split(b"\n")[:MAX_HEADERS]:
        if line:
            name, _, value = line.partition(b":")
            headers.append([text(name), text(value)])
    body = body_of(run, index)
    told: dict[str, Any] = {
        "id": f"{slot}-{run.ids[index]}",
        "size": run.size_of(index),
        "headers": headers,
        "durable": bool(run.flags & (DURABLE | WAS_DURABLE)),
        "priority": run.priority,
        "redelivered": bool(run.attempts or run.flags & REDELIVERED),
        "attempts": run.attempts,
        "timestamp": run.time,
        "expires": run.expires,
        "large": run.blob is not None,
        **_body(body, preview, run.blob.length if run.blob is not None else 0),
    }
    if whole:
        told["raw"] = None if run.blob is not None else base64.b64encode(stored(run, index)).decode()
        told["flags"] = run.flags & ~(REDELIVERED | TRANSIENT | PART | UNIQUE | BLOB)
    return told


def _body(body: bytes | None, preview: int, length: int) -> dict[str, Any]:
    if body is None:
        return {"body": "", "encoding": "none", "length": length, "complete": False}
    piece = body[:preview]
    complete = len(piece) == len(body)
    try:
        shown, encoding = piece.decode("utf-8"), "text"
    except UnicodeDecodeError as error:
        # A character cut in two at the end of the piece is no reason to show all of it as bytes.
        if not complete and error.start >= len(piece) - 3:
            shown, encoding = piece[: error.start].decode("utf-8"), "text"
        else:
            shown, encoding = base64.b64encode(piece).decode(), "base64"
    return {"body": shown, "encoding": encoding, "length": len(body), "complete": complete}


def made(headers: dict[str, str], body: bytes, durable: bool, priority: int) -> Run:
    """A new message: a text, unless it has a content-length or what only one with it can have."""
    lines = b"".join([escaped(name) + b":" + escaped(value) + b"\n" for name, value in headers.items()])
    flags = (DURABLE if durable else 0) | (ESCAPED if b"\\" in lines else 0)
    if "content-length" not in headers:
        if b"\0" in body:
            lines += b"content-length:%d\n" % len(body)
        else:
            flags |= TEXT
    record = lines + b"\n" + body + b"\0"
    if b"\nJMSXGroupID:" in b"\n" + lines:
        flags |= GROUPED
    return Run(NO_IDS, b"", [record], len(record), flags, priority)


def again(message: dict[str, Any]) -> Run:
    """One that row(whole=True) has told. Raises ValueError for what was not."""
    record = base64.b64decode(message["raw"], validate=True)
    if not record.endswith(b"\0") or not (record.startswith(b"\n") or b"\n\n" in record):
        raise ValueError("raw is no message: headers, an empty line, the body and NUL")
    flags = int(message.get("flags", 0)) & (DURABLE | ESCAPED | GROUPED | TEXT)
    if message.get("durable"):
        flags |= DURABLE
    return Run(
        NO_IDS, b"", [record], len(record), flags, int(message.get("priority", 4)), int(message.get("expires", 0))
    )
