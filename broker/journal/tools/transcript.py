"""What lives in a journal as lines of JSON, and a new journal from such lines: for looks, for moves, for backups that
last longer than a format.

    {"stampede": "journal", "version": 1}
    {"body": "00000007", "data": "<base64>"} …     a large body, in pieces, before the run that names it
    {"run": {"slot": 3, "address": "a", "queues": [1], "ids": [[4, 6]], "records": ["…", "…", "…"], …}}
    {"meta": "queue", "slot": 3, "data": {…}}      small state (engine/recovery/slot_restore.py)
    {"end": {"messages": 3, "clean": true}}

Bytes are written as Latin-1. Rule: without its last line it is not whole, and is refused. Must not know files.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from broker.core.errors import JournalError
from broker.core.message import Blob, Run
from broker.core.records import META_KINDS, MetaRecord, RunRecord
from broker.core.spans import spans_of

from .builder import Builder

VERSION: Final = 1
_FIELDS: Final = ("nbytes", "flags", "priority", "expires", "time", "attempts", "due")

Row = dict[str, Any]


class Transcript:
    """A sink (salvage.py) that hands out rows."""

    def __init__(self, out: Callable[[Row], None]) -> None:
        self._out = out
        self._bodies: set[int] = set()
        self._messages = 0
        out({"stampede": "journal", "version": VERSION})

    def has_body(self, id: int) -> bool:
        return id in self._bodies

    def body(self, id: int, pieces: Iterable[bytes]) -> None:
        self._bodies.add(id)
        for piece in pieces:
            self._out({"body": f"{id:016x}", "data": b64encode(piece).decode()})

    def run(self, record: RunRecord) -> None:
        run = record.run
        row: Row = {
            "slot": record.slot, "address": record.address, "queues": list(record.queues),
            "ids": spans_of(run.ids), "lines": run.lines.decode("latin-1"),
            "records": [body.decode("latin-1") for body in run.records], "dispatched": record.dispatched,
        }  # fmt: skip
        row |= {name: getattr(run, name) for name in _FIELDS}
        if record.dedup is not None:
            row["dedup"] = list(record.dedup)
        if run.blob is not None:
            row["blob"] = [f"{run.blob.id:016x}", run.blob.length]
        self._messages += len(run.ids)
        self._out({"run": row})

    def finish(self, metas: Iterable[MetaRecord], clean: bool) -> None:
        for meta in metas:
            self._out({"meta": meta.kind, "slot": meta.slot, "data": meta.data})
        self._out({"end": {"messages": self._messages, "clean": clean}})


def load(rows: Iterable[Row], builder: Builder) -> int:
    """Builds the journal; returns the number of messages. Raises JournalError: then the folder is not to be used."""
    try:
        return _Loading(rows, builder).run()
    except (KeyError, TypeError, ValueError, IndexError) as error:
        builder.abandon()
        raise JournalError(f"this is no dump of a journal, or a damaged one: {error!r}") from None
    except BaseException:
        builder.abandon()
        raise


class _Loading:
    def __init__(self, rows: Iterable[Row], builder: Builder) -> None:
        self._rows = iter(rows)
        self._builder = builder
        self._row: Row | None = next(self._rows, None)

    def run(self) -> int:
        if self._row is None or self._row.get("stampede") != "journal":
            raise JournalError("this is no dump of a journal: `stampede journal dump --live` makes them")
        if self._row["version"] != VERSION:
            raise JournalError(f"a dump of version {self._row['version']}; this release reads {VERSION}")
        metas: list[MetaRecord] = []
        messages = 0
        self._next()
        # A body's rows are taken by _pieces, which stands at the next row when it is done.
        while (row := self._row) is not None:
            if "body" in row:
                self._builder.body(int(row["body"], 16), self._pieces(row["body"]))
                continue
            if "run" in row:
                record = _record(row["run"])
                messages += len(record.run.ids)
                self._builder.run(record)
            elif "meta" in row:
                metas.append(_meta(row))
            elif "end" in row:
                return self._end(row["end"], metas, messages)
            self._next()
        raise JournalError("the dump is cut off: it has no last line")

    def _next(self) -> None:
        self._row = next(self._rows, None)

    def _pieces(self, id: str) -> Iterator[bytes]:
        while self._row is not None and self._row.get("body") == id:
            yield b64decode(self._row["data"], validate=True)
            self._next()

    def _end(self, end: Row, metas: list[MetaRecord], messages: int) -> int:
        # Lines may be lost in the middle of a file as well as at its end.
        if end["messages"] != messages:
            raise JournalError(f"the dump says that it has {end['messages']} messages, and it has {messages}")
        self._builder.finish(metas, end["clean"])
        return messages


def _record(row: Row) -> RunRecord:
    ids = [i for first, last in row["ids"] for i in range(first, last + 1)]
    if len(row["ids"]) == 1:
        ids = range(ids[0], ids[-1] + 1)  # type: ignore[assignment]
    records = [body.encode("latin-1") for body in row["records"]]
    if len(records) != len(ids) or not ids:
        raise ValueError(f"{len(ids)} ids for {len(records)} messages")
    blob = Blob(int(row["blob"][0], 16), row["blob"][1]) if "blob" in row else None
    run = Run(ids, row["lines"].encode("latin-1"), records, blob=blob, **{name: row[name] for name in _FIELDS})
    dedup = (row["dedup"][0], row["dedup"][1]) if "dedup" in row else None
    return RunRecord(row["slot"], row["address"], row["queues"], run, row["dispatched"], dedup)


def _meta(row: Row) -> MetaRecord:
    if row["meta"] not in META_KINDS:
        raise JournalError(f"a newer release has written {row['meta']!r}, which this one does not know: upgrade it")
    return MetaRecord(row["slot"], row["meta"], row["data"])
