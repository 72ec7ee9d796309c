"""An archive on other file systems: a manifest is committed once, whoever else tries, and one run writes at a time.

Spark's JVM is a stand-in here that has files in a dict and fails as it is told; tests/pipeline/test_spark_stores.py and
test_spark_s3.py have real ones.
"""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.store import hadoop
from broker_pipeline.store.hadoop import LEASE_MS, HadoopStore


class JavaError(Exception):
    """As py4j tells of one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.java_exception = SimpleNamespace(toString=lambda: text)


class Stream:
    """What is written counts when it is closed. `spoiled`: the disk fills meanwhile."""

    def __init__(self, files: dict[str, bytes], path: str, free: bool = True, spoiled: bool = False) -> None:
        self.files, self.path, self.free, self.spoiled = files, path, free, spoiled
        self.data = b""
        self.aborted = False

    def write(self, piece: bytearray) -> None:
        if self.spoiled:
            raise JavaError("java.io.IOException: no space")
        self.data += bytes(piece)

    def hasCapability(self, name: str) -> bool:
        return name == "fs.capability.outputstream.abortable"

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        if not self.free and self.path in self.files:
            raise JavaError(f"org.apache.hadoop.fs.FileAlreadyExistsException: {self.path}")
        self.files[self.path] = self.data


class Builder:
    def __init__(self, fs: Java, path: str) -> None:
        self.fs, self.path, self.free, self.must_be_new = fs, path, True, False

    def recursive(self) -> Builder:
        return self

    def overwrite(self, over: bool) -> Builder:
        self.free = over
        return self

    def must(self, name: str, value: bool) -> Builder:
        self.must_be_new = True
        return self

    def build(self) -> Stream:
        if not self.free and self.path in self.fs.files:  # it looks when it is made, and not again
            raise JavaError(f"org.apache.hadoop.fs.FileAlreadyExistsException: {self.path}")
        self.fs.built.append(self)
        made = Stream(self.fs.files, self.path, free=not self.must_be_new, spoiled=self.fs.spoiled)
        self.fs.streams.append(made)
        return made


class Java:
    """FileSystem, FileContext and Path in one. conditional: it makes objects on the condition that there are none."""

    def __init__(self, conditional: bool = True, renames: bool = True) -> None:
        self.files: dict[str, bytes] = {}
        self.conditional, self.renames = conditional, renames
        self.spoiled = False
        self.built: list[Builder] = []
        self.streams: list[Stream] = []
        self.remaining = 500
        self.before_read: Any = None

    def Path(self, text: str) -> Any:
        return SimpleNamespace(
            text=text, getFileSystem=lambda conf: self, getParent=lambda: self.Path(text.rpartition("/")[0]),
            toUri=lambda: text, toString=lambda: text, getName=lambda: text.rpartition("/")[2],
        )  # fmt: skip

    def open(self, path: Any) -> Any:
        if self.before_read is not None:
            self.before_read(path.text)
        if path.text not in self.files:
            raise JavaError(f"java.io.FileNotFoundException: {path.text}")
        return SimpleNamespace(data=self.files[path.text], close=lambda: None)

    def create(self, path: Any, over: bool) -> Stream:
        self.streams.append(Stream(self.files, path.text, spoiled=self.spoiled))
        return self.streams[-1]

    def createFile(self, path: Any) -> Builder:
        return Builder(self, path.text)

    def hasPathCapability(self, path: Any, name: str) -> bool:
        return self.conditional

    def mkdirs(self, path: Any) -> None: ...

    def delete(self, path: Any, deep: bool) -> None:
        self.files.pop(path.text, None)

    def exists(self, path: Any) -> bool:
        return path.text in self.files

    def listStatus(self, path: Any) -> list[Any]:
        found = [name for name in self.files if name.rpartition("/")[0] == path.text]
        if not found:
            raise JavaError(f"java.io.FileNotFoundException: {path.text}")
        return [SimpleNamespace(getPath=lambda name=name: self.Path(name)) for name in found]

    def listFiles(self, path: Any, deep: bool) -> Any:
        found = [name for name in reversed(self.files) if name.startswith(path.text + "/")]

        def status() -> Any:
            name = found.pop()
            return SimpleNamespace(getPath=lambda: self.Path(name), getLen=lambda: len(self.files[name]))

        return SimpleNamespace(hasNext=lambda: bool(found), next=status)

    def rename(self, old: Any, new: Any, options: Any) -> None:
        if not self.renames:
            raise JavaError("org.apache.hadoop.fs.UnsupportedFileSystemException: fs.AbstractFileSystem.x.impl=null")
        if new.text in self.files:
            raise JavaError(f"org.apache.hadoop.fs.FileAlreadyExistsException: {new.text}")
        self.files[new.text] = self.files.pop(old.text)

    def getStatus(self) -> Any:
        return SimpleNamespace(getRemaining=lambda: self.remaining)


def store(java: Java, folder: str = "hdfs://nn/lake/") -> HadoopStore:
    fs = SimpleNamespace(
        Path=java.Path, Options=SimpleNamespace(Rename="Rename"),
        FileContext=SimpleNamespace(getFileContext=lambda uri, conf: java),
    )  # fmt: skip
    to_bytes = SimpleNamespace(toByteArray=lambda stream: stream.data)
    commons = SimpleNamespace(io=SimpleNamespace(IOUtils=to_bytes))
    apache = SimpleNamespace(hadoop=SimpleNamespace(fs=fs), commons=commons)
    spark = SimpleNamespace(
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=apache)),
        sparkContext=SimpleNamespace(_gateway=SimpleNamespace(new_array=lambda kind, n: [])),
        _jsparkSession=SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: None)),
    )  # fmt: skip
    return HadoopStore(spark, folder)


@pytest.fixture(autouse=True)
def py4j(monkeypatch):
    """Its errors, without Spark."""
    made = ModuleType("py4j.protocol")
    made.Py4JJavaError = JavaError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "py4j", ModuleType("py4j"))
    monkeypatch.setitem(sys.modules, "py4j.protocol", made)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_is_read_and_listed():
    lake = store(Java())
    lake.write("a/one", [b"x", b"y"])
    lake.write("a/b/two", [])
    assert lake.read("a/one") == b"xy" and lake.exists("a/one") and not lake.exists("a/two")
    assert lake.names("a") == ["one"] and lake.names("none") == []
    assert lake.files("a") == [("b/two", 0), ("one", 2)]
    lake.remove("a/one")
    assert not lake.exists("a/one")
    with pytest.raises(FileNotFoundError):
        lake.read("a/one")
    assert (lake.path(""), lake.path("a")) == ("hdfs://nn/lake", "hdfs://nn/lake/a")


def test_a_write_that_fails_leaves_nothing():
    """Closing is what makes it count; where the stream cannot be given up it is left open."""
    java = Java()
    java.spoiled = True
    with pytest.raises(PipelineError, match="no space"):
        store(java).write("a", [b"x"])
    assert java.files == {} and java.streams[0].aborted


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("java.io.FileNotFoundException: x", FileNotFoundError),
        ("org.apache.hadoop.fs.FileAlreadyExistsException: x", FileExistsError),
        ("org.apache.hadoop.fs.PathIOException: `File exists': x", FileExistsError),
        ("software.amazon.awssdk.S3Exception PreconditionFailed: x", FileExistsError),
        ("org.apache.hadoop.AWS412Exception: x", FileExistsError),
        ("java.io.IOException: port 4120", PipelineError),
    ],
)
def test_errors_of_java_are_those_of_python(text, error):
    def fail() -> None:
        raise JavaError(text)

    with pytest.raises(error):
        store(Java())._try(fail)


def test_a_missing_jar_is_said_with_what_to_do():
    def fail() -> None:
        raise JavaError('org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3a"')

    with pytest.raises(PipelineError, match=r"spark\.jars\.packages"):
        store(Java())._try(fail)


@pytest.mark.parametrize(
    ("folder", "remaining", "free"), [("hdfs://nn/x", 500, 500), ("hdfs://nn/x", 1 << 62, None), ("s3a://b/x", 5, None)]
)
def test_room_is_told_where_there_is_such_a_thing(folder, remaining, free):
    java = Java()
    java.remaining = remaining
    assert store(java, folder).free() == free


# ── committing ───────────────────────────────────────────────────────────────────────────────────────

WAYS = {
    "by a rename": ("hdfs://nn/lake", Java),
    "on a condition": ("s3a://bucket/lake", Java),
    "looking first": ("s3a://bucket/lake", lambda: Java(conditional=False)),
    "without a rename": ("viewfs://x/lake", lambda: Java(renames=False)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_is_taken_is_not_written_over(way):
    folder, make = WAYS[way]
    java = make()
    lake = store(java, folder)
    lake.create("m/7", b"first")
    with pytest.raises(FileExistsError):
        lake.create("m/7", b"second")
    assert lake.read("m/7") == b"first"
    assert set(java.files) == {f"{folder}/m/7"}, "and nothing is left beside it"


def test_a_store_that_can_is_asked_to_look_when_it_writes():
    """A rename copies there, and is seen half done."""
    java = Java()
    store(java, "s3a://bucket/lake").create("m/7", b"x")
    assert [builder.must_be_new for builder in java.built] == [True]
    java = Java(conditional=False)
    store(java, "s3a://bucket/lake").create("m/7", b"x")
    assert [(builder.must_be_new, builder.free) for builder in java.built] == [(False, False)]
    java = Java()
    store(java).create("m/7", b"x")
    assert java.built == []


def test_of_two_who_looked_at_the_same_moment_one_hears_that_it_lost():
    """What has been written is read back."""
    java = Java(conditional=False)
    lake = store(java, "s3a://bucket/lake")
    java.before_read = lambda path: java.files.update({path: b"the other one"})
    with pytest.raises(FileExistsError):
        lake.create("m/7", b"mine")


def test_another_error_of_a_rename_is_no_reason_to_write_otherwise():
    java = Java()

    def broken(*_: Any) -> None:
        raise JavaError("java.io.IOException: quota")

    java.rename = broken  # type: ignore[method-assign]
    with pytest.raises(PipelineError, match="quota"):
        store(java).create("m/7", b"x")
    assert java.files == {} and java.built == []


# ── the lease ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lake(monkeypatch):
    monkeypatch.setattr(hadoop, "_PAUSE_S", 0.001)
    made = store(Java())
    made.clock = 1_000_000
    made.now_ms = lambda: made.clock
    yield made


NAME = "hdfs://nn/lake/_lease.json"


def held(lake: Any, token: str, ms: int) -> None:
    lake._fs.files[NAME] = json.dumps({"token": token, "ms": ms}).encode()


def test_one_run_at_a_time(lake):
    first = lake.lock()
    with pytest.raises(PipelineError, match=r"another run is writing.*ends in 901 s"):
        lake.lock()
    first.close()
    assert NAME not in lake._fs.files
    lake.lock().close()


def test_a_run_that_died_is_in_nobodys_way_for_ever(lake):
    held(lake, "dead", lake.clock - LEASE_MS + 1)
    with pytest.raises(PipelineError):
        lake.lock()
    lake.clock += 1
    lease = lake.lock()
    assert json.loads(lake._fs.files[NAME])["token"] == lease._token
    lease.close()


def test_of_two_who_find_a_dead_one_one_goes_on(lake):
    held(lake, "dead", 0)
    create = lake.create

    def beaten(relative: str, data: bytes) -> None:
        if not lake.exists(relative):
            held(lake, "quicker", lake.clock)
        create(relative, data)

    lake.create = beaten
    with pytest.raises(PipelineError, match="another run has begun"):
        lake.lock()


@pytest.mark.parametrize("text", [b"", b'{"tok', b'{"token": "x"}'])
def test_a_lease_that_its_run_was_killed_in_writing_is_nobodys(lake, text):
    lake._fs.files[NAME] = text
    lake.lock().close()


def test_a_lease_that_is_half_there_is_looked_at_again(lake):
    lake._fs.files[NAME] = b'{"tok'
    looks: list[str] = []

    def read(path: str) -> None:
        looks.append(path)
        if len(looks) == 4:
            held(lake, "alive", lake.clock)

    lake._fs.before_read = read
    with pytest.raises(PipelineError, match="another run is writing"):
        lake.lock()
    assert len(looks) >= 4


def test_a_store_that_does_not_answer_is_no_free_lease(lake, monkeypatch):
    lease = lake.lock()

    def away(path: str) -> None:
        raise JavaError("java.net.ConnectException: refused")

    lake._fs.before_read = away
    with pytest.raises(PipelineError, match="refused"):
        lease._other()
    lake._fs.before_read = None
    lease.close()


def test_it_is_renewed_while_it_is_held_and_who_lost_it_hears_so(lake):
    lease = lake.lock()
    lake.clock += LEASE_MS // 2
    lease.renew()
    assert json.loads(lake._fs.files[NAME])["ms"] == lake.clock
    held(lake, "another", lake.clock)
    with pytest.raises(PipelineError, match="another run has taken over"):
        lease.renew()
    lease.close()
    assert json.loads(lake._fs.files[NAME])["token"] == "another", "it is not ours to take away"


def test_a_thread_renews_it_whatever_the_store_says_in_between(lake, monkeypatch):
    monkeypatch.setattr(hadoop, "LEASE_MS", 250)
    lease = lake.lock()
    write, tries = lake.write, []

    def sometimes(relative: str, pieces: Any) -> None:
        tries.append(relative)
        if len(tries) == 1:
            raise PipelineError("away")
        write(relative, pieces)

    lake.write = sometimes
    from tests.harness import until

    until(lambda: len(tries) >= 3, "renewals")
    lease.close()
    assert not lease._thread.is_alive()
