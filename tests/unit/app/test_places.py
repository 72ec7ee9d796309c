"""Where backups lie: a file has its name when it is complete; a folder and a bucket behave the same."""

from __future__ import annotations

import gc
import sys

import pytest

from broker.app.copies import places as subject
from broker.app.copies.places import Folder, NoPlace, joined, place_of, put, split, whole
from broker.core.errors import JournalError
from tests.pipeline.s3 import as_variables, bucket, missing_of_server


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A bucket of a real server."""
    if lacks := missing_of_server("obstore"):
        pytest.skip(f"no S3: {lacks}")
    with pytest.MonkeyPatch.context() as patch, bucket("backups", tmp_path_factory.mktemp("s3") / "log") as endpoint:
        for name, value in as_variables(endpoint).items():
            patch.setenv(name, value)
        yield "s3://backups/stomp"


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    if request.param == "folder":
        return place_of(str(tmp_path))
    return place_of(f"{request.getfixturevalue('s3')}/{tmp_path.name}")


def test_what_was_put_is_there(place):
    put(place, "run/one.json", b"hello")
    put(place, "run/two.json", b"")
    assert whole(place, "run/one.json") == b"hello" and whole(place, "run/two.json") == b""
    assert place.sizes() == {"run/one.json": 5, "run/two.json": 0}
    place.remove("run/one.json")
    assert place.sizes() == {"run/two.json": 0}
    with pytest.raises(FileNotFoundError):
        whole(place, "run/one.json")


def test_nothing_is_written_over(place):
    put(place, "a", b"mine")
    with pytest.raises(FileExistsError):
        put(place, "a", b"yours")
    assert whole(place, "a") == b"mine"


def test_what_is_given_up_leaves_nothing(place):
    """Also beyond the size of a part."""
    writer = place.writer("big")
    for _ in range(40):
        writer.stream.write(bytes(1 << 20))
    writer.abandon()
    del writer
    gc.collect()
    assert place.sizes() == {}


def test_a_large_one_goes_in_parts(place):
    writer = place.writer("big")
    for n in range(40):
        writer.stream.write(bytes([n]) * (1 << 20))
    writer.finish()
    found = joined(place.read("big")).read()
    assert len(found) == 40 << 20 and found[39 << 20] == 39


def test_a_small_file_that_is_not_small_is_refused(place):
    put(place, "a", bytes(3 << 20))
    with pytest.raises(JournalError, match="larger than"):
        whole(place, "a", 1 << 20)


def test_a_store_that_gives_no_answer_is_said_in_one_line(monkeypatch, s3):
    monkeypatch.setattr(subject, "_OPTIONS", {"timeout": "1s", "allow_http": True})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(JournalError, match="the object store: ") as caught:
        place_of("s3://backups/x").sizes()
    assert "\n" not in str(caught.value) and "Debug" not in str(caught.value)


def test_what_is_no_place_is_said(monkeypatch, s3):
    with pytest.raises(NoPlace, match="foo://x"):
        place_of("foo://x")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(NoPlace, match=r"\[store\]"):
        place_of("s3://backups/x")


def test_folders_that_are_empty_go(tmp_path):
    place = Folder(str(tmp_path))
    put(place, "run/a/b", b"")
    put(place, "run/c", b"")
    place.remove("run/a/b")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    place.remove("run/c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a/b.tar", ("a", "b.tar")),
        ("b.tar", (".", "b.tar")),
        ("s3://x/y/z.tar", ("s3://x/y", "z.tar")),
        ("/a/", ("/", "a")),
    ],
)
def test_the_place_of_a_file(text, parts):
    assert split(text) == parts


def test_a_reader_gets_pieces_in_bytes_as_it_asks():
    reader = joined([b"abc", b"defgh"])
    assert reader.read(2) == b"ab" and reader.read(4) == b"cdef" and reader.read() == b"gh" and reader.read() == b""
