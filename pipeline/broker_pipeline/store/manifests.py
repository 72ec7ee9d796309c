"""What an archive consists of: a chain of numbered manifests, and only the files they name.

    archive/manifests/000000000001.json     {"number", "broker", "made_ms", "ends": {view: offsets}, "adds", "removes"}
    archive/data/messages/address=orders/date=2026-11-24/hour=13/000000000001-0.parquet
    archive/bodies/<message id>.body        large bodies

A manifest is the whole of a run's effect: its data files are on the disk before, under names that no reader looks for,
and it appears at once, or not where its number is taken (stores.py). So a run happens once or not at all, whatever is
killed when, and the chain says where to go on: it is the checkpoint.

Beyond a folder of this machine files are not moved, since there a move may be a copy: they are written to
data/<number>-<token>/ at once, and a folder there that no manifest names is rubbish.

Rule: engine-neutral. A reader of the files that `live` gives, be it DuckDB, pandas or Spark, sees each row once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from broker.seams.entropy import token
from broker.seams.files import OsFiles, read_whole

from ..errors import PipelineError
from ..log.ranges import Offsets
from ..progress import Progress, Say
from .files import move, remove, sync_file, write_pieces
from .stores import Lock, Store, store

_MESSAGES: Final = re.compile("/(_view=)?messages/")
"""Of the path of a file of messages."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file. path: below the archive's folder."""

    path: str
    view: str
    address: str
    date: str
    hour: str
    rows: int
    nbytes: int


@dataclass(frozen=True)
class Manifest:
    """One run. ends: view → what has been read by then. scope: the addresses, which never change."""

    number: int
    broker: str
    made_ms: int
    ends: Mapping[str, Offsets]
    scope: tuple[str, ...] = ()
    adds: tuple[DataFile, ...] = ()
    removes: tuple[str, ...] = ()
    kind: str = "archive"


@dataclass
class State:
    """The archive after some manifests."""

    last: Manifest | None = None
    files: dict[str, DataFile] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.last.number if self.last is not None else 0


class Archive:
    """A folder, or a name for Spark's file systems. Readers need nothing else; who writes holds `lock`."""

    def __init__(self, folder: str, spark: Any = None) -> None:
        self.store = store(folder, spark)
        self._spark = spark
        self.folder = self.store.path("").rstrip("/")

    def path(self, relative: str) -> str:
        return self.store.path(relative)

    def lock(self) -> Lock:
        """Held by the one who writes. Raises PipelineError."""
        return self.store.lock()

    def load(self) -> State:
        """Raises PipelineError when the chain has a gap or a manifest is not one."""
        state = State()
        folder = self.path("manifests")
        for name in self.store.names("manifests"):
            if not name.endswith(".json"):
                continue
            manifest = _parse(self.store, f"manifests/{name}")
            if manifest.number != state.number + 1:
                raise PipelineError(f"{folder}: manifest {state.number + 1} is missing: restore it from a backup")
            for path in manifest.removes:
                state.files.pop(path, None)
            state.files |= {file.path: file for file in manifest.adds}
            state.last = manifest
        return state

    def existing(self) -> State:
        """Raises PipelineError also when there is no archive here: a name that is misspelt is no empty one."""
        state = self.load()
        if state.last is None:
            raise PipelineError(
                f"{self.folder} holds no archive: check the spelling, or stampede-pipeline archive {self.folder} first"
            )
        return state

    def live(self, view: str, state: State | None = None) -> list[str]:
        """Paths of a view's files."""
        files = (state or self.load()).files.values()
        return sorted(self.path(file.path) for file in files if file.view == view)

    def staging(self, number: int) -> str:
        return self.path(f"_staging/{number:012d}")

    def begin(self, number: int) -> str:
        """Name of the folder that Spark is to write into, below the archive: one that is not there."""
        if self.store.remote:
            return f"data/{number:012d}-{token(4)}"
        return f"_staging/{number:012d}/data"

    def clean(self, state: State) -> None:
        """Takes away what a run left that was killed before its manifest, or behind it. Only for who holds the lock."""
        if state.last is not None:
            self.take_away(state.last)
        if self.store.remote:
            known = {"/".join(path.split("/")[:2]) for path in state.files}
            for name in self.store.names("data"):
                if f"data/{name}" not in known:
                    self.store.remove(f"data/{name}")
            return
        left = Path(self.path("_staging"))
        for moves in left.glob("*/moves.json"):
            for path in json.loads(read_whole(str(moves))):
                if path not in state.files:
                    remove(self.path(path))
        self.store.remove("_staging")

    def take_away(self, manifest: Manifest) -> None:
        """What a manifest removes, as far as it is still there. Only the last one may have left any: who publishes
        another has cleaned before."""
        there = [path for path in manifest.removes if self.store.exists(path)]
        if manifest.kind == "retain":  # other files take the place of what a compaction or a deletion removes
            for name in self._bodies([path for path in there if _MESSAGES.search(path)]):
                self.store.remove(name)
        for path in there:
            self.store.remove(path)

    def _bodies(self, paths: Sequence[str]) -> Iterator[str]:
        """The large bodies of their rows. Those of a file that is damaged stay."""
        if not paths:
            return
        named = [self.path(path) for path in paths]
        if self.store.remote:
            rows = self._spark.read.option("ignoreCorruptFiles", "true").parquet(*named)
            for row in rows.where("body_ref is not null").select("body_ref").distinct().collect():
                yield row["body_ref"]
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path in named:
            try:
                for batch in pq.ParquetFile(path).iter_batches(columns=["body_ref"]):
                    yield from filter(None, batch.column(0).to_pylist())
            except pa.ArrowException:
                continue

    def publish(self, manifest: Manifest, moves: Mapping[str, str]) -> None:
        """`moves`: staged file → its path below the archive. Everything is on the disk before the manifest is."""
        staging = self.staging(manifest.number)
        if moves:
            write_pieces(f"{staging}/moves.json", [json.dumps(sorted(moves.values())).encode()])
        folders = set()
        for staged, path in moves.items():
            sync_file(staged)
            move(staged, self.path(path))
            folders.add(Path(self.path(path)).parent)
        for folder in {
            above for each in folders for above in (each, *each.parents) if Path(self.folder) in above.parents
        }:
            OsFiles().sync_dir(str(folder))
        name = f"manifests/{manifest.number:012d}.json"
        try:
            self.store.create(name, json.dumps(asdict(manifest), indent=1).encode())
        except FileExistsError:
            raise PipelineError(
                f"{self.path(name)} is there already: another run has written this archive meanwhile"
            ) from None


def _parse(store: Store, name: str) -> Manifest:
    path = store.path(name)
    try:
        read: dict[str, Any] = json.loads(store.read(name))
        adds = tuple(DataFile(**each) for each in read.pop("adds"))
        manifest = Manifest(adds=adds, **read)
        return replace(manifest, scope=tuple(manifest.scope), removes=tuple(manifest.removes))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"{path} cannot be read as a manifest ({error}): restore it from a backup") from None


def missing(archive: Archive, state: State) -> list[str]:
    """Files that are named and not there."""
    return sorted(path for path in state.files if not archive.store.exists(path))


def damaged(archive: Archive, state: State, spark: Any, say: Say) -> list[str]:
    """Files that cannot be read to their end, or hold another number of rows than was written. `spark`: for remote
    ones."""
    found = []
    progress = Progress(say, len(state.files), "files verified")
    for done, (path, file) in enumerate(sorted(state.files.items())):
        progress.at(done)
        try:
            if _rows(archive.path(path), spark if archive.store.remote else None) != file.rows:
                found.append(archive.path(path))
        except ModuleNotFoundError:
            raise
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("pyarrow", "pyspark", "py4j", "builtins"):
                raise
            found.append(archive.path(path))
    return found


def _rows(path: str, spark: Any) -> int:
    """All pages are read: a footer says nothing of them."""
    if spark is not None:
        rows = spark.read.parquet(path)
        return int(rows.selectExpr("count(*) as n", *(f"count(`{name}`)" for name in rows.columns)).collect()[0]["n"])
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return sum(batch.num_rows for batch in file.iter_batches())


def total(files: Iterable[DataFile]) -> tuple[int, int]:
    """(rows, bytes)."""
    listed = list(files)
    return sum(file.rows for file in listed), sum(file.nbytes for file in listed)
