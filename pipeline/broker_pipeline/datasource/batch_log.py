"""The batches of consume mode, written ahead: what Spark plays again after a restart is the same, row by row.

    folder/source.json           which queue this is, and the folder's own id, which is in every offset
    folder/000000000007.arrow    the rows of batch 7: there, and synced, before Spark hears of the batch
    folder/done.json             the last batch that Spark has committed; written before its messages are acknowledged
    folder/000000000005.owed     ids of messages of a committed batch whose acknowledgement is not confirmed yet

A message is `pending` from the batch it is in until Spark has committed that, then `owed` until the broker has
confirmed its acknowledgement. It may come again at any time meanwhile: it is never in a second batch.

Rule: files appear whole or not at all. What cannot be told apart from a loss is refused, with what to do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from broker.core.strict_numbers import natural
from broker.seams.entropy import token
from broker.seams.files import OsFile, OsFiles, read_whole

from ..errors import PipelineError
from ..store.files import remove, write_pieces

MOST_OWED: Final = 1_000_000
"""Ids of messages that never came again: somebody else has taken them, or their acknowledgement had arrived after all.
Those of the oldest batches are forgotten beyond it; 100 bytes each."""
PIECE_ROWS: Final = 5_000
"""Rows that a task can begin at."""


class BatchLog:
    """A folder, for one query at a time. `open` before anything else; only the driver does."""

    def __init__(self, folder: str, source: str) -> None:
        """source: the broker and the queue, which never change."""
        self.folder = Path(folder).absolute()
        self.id = ""
        self.done = 0
        self.newest = 0
        """The last batch that is written."""
        self.pending: dict[str, int] = {}
        """Message → its batch, of batches that are not committed."""
        self.owed: dict[str, int] = {}
        """The same of batches that are."""
        self._source = source
        self._lock: OsFile | None = None

    def open(self) -> None:
        """Raises PipelineError when another query has it, or it is of another queue."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = OsFiles().lock(str(self.folder / ".lock"))
            self._load()
            self.tidy()
        except BlockingIOError:
            raise PipelineError(
                f"{self.folder} is in use by another query: give each an option ahead of its own"
            ) from None
        except OSError as error:
            self.close()
            raise PipelineError(f"option ahead: {error.filename or self.folder}: {error.strerror}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _load(self) -> None:
        known = self._json("source.json")
        if known is None:
            if self._numbers(".arrow"):
                raise PipelineError(f"{self.folder} has batches and no source.json: restore it from a backup")
            known = {"id": token(8), "source": self._source}
            write_pieces(str(self.folder / "source.json"), [json.dumps(known).encode()])
        if known["source"] != self._source:
            raise PipelineError(
                f"{self.folder} holds batches of {known['source']}, and this is {self._source}: use another folder, "
                "and a new checkpoint"
            )
        self.id = known["id"]
        self.done = (self._json("done.json") or {"batch": 0})["batch"]
        written = self._numbers(".arrow")
        self.newest = max([self.done, *written])
        self.pending = {id: number for number in written if number > self.done for id in self.ids(number)}
        for number in written:
            if number <= self.done:
                self._owe(number, self.ids(number))
        for number in self._numbers(".owed"):
            self.owed |= dict.fromkeys(self._json(f"{number:012d}.owed") or (), number)
        self._forget()

    def _numbers(self, ending: str) -> list[int]:
        return sorted(number for path in self.folder.glob(f"*{ending}") if (number := natural(path.stem)) is not None)

    def _json(self, name: str) -> Any:
        path = self.folder / name
        if not path.exists():
            return None
        try:
            return json.loads(read_whole(str(path)))
        except ValueError:
            raise PipelineError(f"{path} cannot be read: restore it from a backup") from None

    def path(self, number: int) -> str:
        return str(self.folder / f"{number:012d}.arrow")

    # ── offsets ────────────────────────────────────────────────────────────────────────────────────

    def offset(self, number: int) -> dict[str, Any]:
        """As Spark keeps it in its checkpoint."""
        return {"batch": number, "folder": self.id}

    def number(self, offset: dict[str, Any]) -> int:
        """Raises PipelineError for an offset of another folder."""
        if offset.get("folder") != self.id:
            raise PipelineError(
                f"the checkpoint was made with another folder of batches than {self.folder}: a checkpoint and its "
                "option ahead belong together; give back the old folder, or begin with new ones of both"
            )
        return int(offset["batch"])

    def check(self, number: int) -> None:
        """May a query whose checkpoint ends at this batch go on? Raises PipelineError."""
        if number < self.done:
            raise PipelineError(
                f"the checkpoint ends at batch {number}, and batches up to {self.done} have been acknowledged: it is "
                "older than the folder. Begin with a new checkpoint and a new option ahead; what is acknowledged is "
                "where the old query has written it"
            )
        if number > self.newest:
            raise PipelineError(
                f"the checkpoint knows batch {number}, the newest in {self.folder} is {self.newest}: restore that"
            )

    def paths(self, first: int, last: int) -> list[str]:
        """Files of batches `first`+1 to `last`. Raises PipelineError when one is gone."""
        found = [self.path(number) for number in range(first + 1, last + 1)]
        for path in found:
            if not os.path.exists(path):
                raise PipelineError(
                    f"{path} is not there: batches that Spark has committed are removed, and it asks for this one "
                    "again. Its checkpoint is older than the folder: begin with new ones of both"
                )
        return found

    # ── a batch's life ─────────────────────────────────────────────────────────────────────────────

    def write(self, table: Any) -> int:
        """Another batch. Returns its number when it is on the disk."""
        import pyarrow as pa

        number = self.newest + 1
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=PIECE_ROWS)
        try:
            write_pieces(self.path(number), [sink.getvalue().to_pybytes()])
        except OSError as error:
            raise PipelineError(
                f"a batch could not be written to {self.folder} ({error.strerror}): make room; nothing is lost, what "
                "is not acknowledged comes again"
            ) from None
        self.newest = number
        self.pending |= dict.fromkeys(table.column("message_id").to_pylist(), number)
        return number

    def ids(self, number: int) -> list[str]:
        """Of the messages of a batch."""
        found: list[str] = read(self.path(number), ["message_id"]).column("message_id").to_pylist()
        return found

    def commit(self, number: int) -> None:
        """Spark has done with everything up to this batch: its messages are owed an acknowledgement."""
        if number <= self.done:
            return
        write_pieces(str(self.folder / "done.json"), [json.dumps({"batch": number}).encode()])
        self.done = number
        leaving = [id for id, batch in self.pending.items() if batch <= number]
        for id in leaving:
            self.owed[id] = self.pending.pop(id)
        self.newest = max(self.newest, number)
        self._forget()

    def acknowledged(self, ids: Iterable[str]) -> None:
        """The broker has confirmed it."""
        for id in ids:
            self.owed.pop(id, None)

    def tidy(self) -> None:
        """Takes away what nobody needs any more: batches that are committed. Who is owed is noted before."""
        left: dict[int, list[str]] = {}
        for id, number in self.owed.items():
            left.setdefault(number, []).append(id)
        for number in self._numbers(".arrow"):
            if number <= self.done:
                if number in left:
                    self._owe(number, left[number])
                remove(self.path(number))
        for number in self._numbers(".owed"):
            if number not in left:
                remove(str(self.folder / f"{number:012d}.owed"))

    def _owe(self, number: int, ids: list[str]) -> None:
        write_pieces(str(self.folder / f"{number:012d}.owed"), [json.dumps(ids).encode()])

    def _forget(self) -> None:
        """The oldest batches first."""
        while len(self.owed) > MOST_OWED:
            oldest = min(self.owed.values())
            self.owed = {id: number for id, number in self.owed.items() if number != oldest}


def read(path: str, columns: list[str] | None = None) -> Any:
    """A batch as a table. Raises PipelineError."""
    import pyarrow as pa

    try:
        with pa.OSFile(path) as file, pa.ipc.open_file(file) as batch:
            table = batch.read_all()
            return table.select(columns) if columns else table
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, error) from None


def pieces(path: str) -> int:
    """How many parts a batch can be read in."""
    import pyarrow as pa

    try:
        with pa.OSFile(path) as file, pa.ipc.open_file(file) as batch:
            return int(batch.num_record_batches)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, error) from None


def part(path: str, first: int, last: int) -> Iterator[Any]:
    """Those parts, in a worker."""
    import pyarrow as pa

    try:
        with pa.OSFile(path) as file, pa.ipc.open_file(file) as batch:
            for number in range(first, last):
                yield batch.get_batch(number)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> PipelineError:
    return PipelineError(
        f"{path} cannot be read ({error}): option ahead must be a folder that the driver and all workers see under "
        "this name; if the file is damaged restore it from a backup"
    )
