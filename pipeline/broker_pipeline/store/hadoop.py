"""An archive on whatever Spark's file systems reach: hdfs://, s3a://, abfs:// and others, if Spark has the jars.

A manifest is committed as the file system can: by a rename that fails when the name is taken (HDFS: atomic), or, where
a rename copies or is not to be had (object stores), by creating the object on the condition that there is none. A store
that does not know that condition looks first and writes then: two runs at the same moment could both believe they had
committed. Therefore what has been written is read back, and one run at a time holds a lease, a file that is renewed.

Rule: the driver's JVM does it all (py4j); workers never come here. An error of the file system is told in its words.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from broker.seams.clock import SystemClock
from broker.seams.entropy import token

from ..errors import PipelineError

LEASE_MS: Final = 15 * 60 * 1000
"""Without a sign of life for so long, a run that wrote this archive is taken to be dead."""
_RENEWALS: Final = 5
"""As often it is renewed meanwhile."""
_LOOKS: Final = 8
_PAUSE_S: Final = 0.25
"""A lease that cannot be read for all of these is nobody's: its run was killed when it wrote it."""
_OBJECTS: Final = frozenset(("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs", "swift"))
"""Schemes whose rename copies, and is seen half done."""
_CONDITION: Final = "fs.option.create.conditional.overwrite"
"""A store that has this capability makes the object when it is closed, if there is none by then (Hadoop 3.4.2)."""
_TAKEN: Final = ("FileAlreadyExistsException", "PathIOException: `File exists")
_T = TypeVar("_T")


class HadoopStore:
    """`folder`: with its scheme, such as s3a://bucket/lake."""

    remote = True

    def __init__(self, spark: Any, folder: str) -> None:
        self.folder = folder.rstrip("/")
        self._jvm = spark._jvm
        self._gateway = spark.sparkContext._gateway
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._clock = SystemClock()
        self._fs = self._try(lambda: self._at("").getFileSystem(self._conf))

    def path(self, relative: str) -> str:
        return f"{self.folder}/{relative}" if relative else self.folder

    def _at(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(relative))

    def _try(self, what: Callable[[], _T]) -> _T:
        """Raises FileNotFoundError, FileExistsError or PipelineError in the place of Java's."""
        from py4j.protocol import Py4JJavaError

        try:
            return what()
        except Py4JJavaError as error:
            text = str(error.java_exception.toString())
            if "FileNotFoundException" in text:
                raise FileNotFoundError(text) from None
            if any(sign in text for sign in _TAKEN) or "PreconditionFailed" in text or "412" in text.split(":")[0]:
                raise FileExistsError(text) from None
            hint = ""
            if "No FileSystem for scheme" in text or "ClassNotFoundException" in text:
                hint = ": Spark has no jar for it; give it one, such as with spark.jars.packages"
            raise PipelineError(f"{self.folder}: {text}{hint}") from None

    def read(self, relative: str) -> bytes:
        def work() -> bytes:
            stream = self._fs.open(self._at(relative))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

        return self._try(work)

    def names(self, folder: str) -> list[str]:
        try:
            found = self._try(lambda: self._fs.listStatus(self._at(folder)))
        except FileNotFoundError:
            return []
        return sorted(str(status.getPath().getName()) for status in found)

    def files(self, folder: str) -> list[tuple[str, int]]:
        """(path below `folder`, bytes), of all folders in it."""

        def work() -> list[tuple[str, int]]:
            found, each = [], self._fs.listFiles(self._at(folder), True)
            while each.hasNext():
                status = each.next()
                path = str(status.getPath().toString())
                found.append((path.partition(f"/{folder}/")[2], int(status.getLen())))
            return sorted(found)

        return self._try(work)

    def exists(self, relative: str) -> bool:
        return self._try(lambda: bool(self._fs.exists(self._at(relative))))

    def remove(self, relative: str) -> None:
        self._try(lambda: self._fs.delete(self._at(relative), True))

    def write(self, relative: str, pieces: Iterable[bytes]) -> None:
        self._try(lambda: self._fill(self._fs.create(self._at(relative), True), pieces))

    def _fill(self, stream: Any, pieces: Iterable[bytes]) -> None:
        """Closing is what makes it count: of an object that fails there is nothing."""
        try:
            for piece in pieces:
                stream.write(bytearray(piece))
        except BaseException:
            abort = getattr(stream, "abort", None)
            if abort is not None and bool(stream.hasCapability("fs.capability.outputstream.abortable")):
                abort()
            raise
        stream.close()

    def create(self, relative: str, data: bytes) -> None:
        if self.folder.partition(":")[0] in _OBJECTS:
            self._create_object(relative, data)
        else:
            self._create_by_rename(relative, data)
        if self.read(relative) != data:
            raise FileExistsError(self.path(relative))

    def _create_object(self, relative: str, data: bytes) -> None:
        def work() -> None:
            path = self._at(relative)
            builder = self._fs.createFile(path).recursive()
            if self._fs.hasPathCapability(path, _CONDITION):
                builder = builder.overwrite(True).must(_CONDITION, True)  # looked for when it is closed
            else:
                builder = builder.overwrite(False)
            self._fill(builder.build(), [data])

        self._try(work)

    def _create_by_rename(self, relative: str, data: bytes) -> None:
        beside = f"_staging/{token(8)}"
        self.write(beside, [data])

        def work() -> None:
            fs = self._jvm.org.apache.hadoop.fs
            self._fs.mkdirs(self._at(relative).getParent())
            never = self._gateway.new_array(fs.Options.Rename, 0)  # no option: not over what is there
            fs.FileContext.getFileContext(self._at("").toUri(), self._conf).rename(
                self._at(beside), self._at(relative), never
            )

        try:
            self._try(work)
        except PipelineError as error:
            if "AbstractFileSystem" not in str(error):
                raise
            self._create_object(relative, data)  # it has no rename that looks
        finally:
            self.remove(beside)

    def lock(self) -> Lease:
        return Lease(self)

    def free(self) -> int | None:
        if self.folder.partition(":")[0] in _OBJECTS:
            return None
        left = self._try(lambda: int(self._fs.getStatus().getRemaining()))
        return left if left < 1 << 62 else None

    def now_ms(self) -> int:
        return self._clock.wall_ms()


class Lease:
    """Of who writes. A thread renews it as long as it is held, whatever the run does meanwhile."""

    _NAME: Final = "_lease.json"

    def __init__(self, store: HadoopStore) -> None:
        """Raises PipelineError when somebody else has it."""
        self._store = store
        self._token = token(8)
        self._turn = threading.Lock()
        self._over, self._pause = threading.Event(), threading.Event()
        self._take()
        self._thread = threading.Thread(target=self._keep, name="stampede-lease", daemon=True)
        self._thread.start()

    def _take(self) -> None:
        store = self._store
        try:
            store.create(self._NAME, self._text())
            return
        except FileExistsError:
            pass
        other = self._other()
        left_ms = other["ms"] + LEASE_MS - store.now_ms()
        if left_ms > 0:
            raise PipelineError(
                f"{store.folder}: another run is writing this archive; wait for it. If it was killed, its lease "
                f"({store.path(self._NAME)}) ends in {left_ms // 1000 + 1} s; remove the file if you know it is dead"
            )
        store.remove(self._NAME)
        try:
            store.create(self._NAME, self._text())
        except FileExistsError:
            raise PipelineError(f"{store.folder}: another run has begun to write this archive; wait for it") from None

    def _text(self) -> bytes:
        return json.dumps({"token": self._token, "ms": self._store.now_ms()}).encode()

    def _other(self) -> dict[str, Any]:
        """What the file says. It is half there while somebody renews it: that is looked at again."""
        for left in reversed(range(_LOOKS)):
            try:
                read: dict[str, Any] = json.loads(self._store.read(self._NAME))
                if isinstance(read.get("ms"), int):
                    return read
            except FileNotFoundError:
                break
            except ValueError:
                pass
            except PipelineError:
                if not left:
                    raise
            if left:
                self._pause.wait(_PAUSE_S)
        return {"ms": 0}

    def _keep(self) -> None:
        """Who has lost it is told by the next `renew`; a store that does not answer may do so the next time."""
        while not self._over.wait(max(LEASE_MS / 1000 / _RENEWALS, 0.05)):
            try:
                self.renew()
            except (PipelineError, OSError):
                continue

    def renew(self) -> None:
        """Raises PipelineError when it has been lost."""
        with self._turn:
            if self._other().get("token") != self._token:
                raise PipelineError(
                    f"{self._store.folder}: another run has taken over this archive, because this one gave no sign of "
                    f"life for {LEASE_MS // 60_000} minutes; what it has committed is safe"
                )
            self._store.write(self._NAME, [self._text()])

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        if self._other().get("token") == self._token:
            self._store.remove(self._NAME)
