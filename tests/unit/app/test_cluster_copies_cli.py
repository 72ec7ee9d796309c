"""A backup of a whole cluster: what etcd knows comes first, all owners are there before it counts, and a new cluster
with owners of other names finds its slots."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from broker.app.commands import cluster_cli
from broker.app.commands.etcd.cluster_copies_cli import cluster
from broker.app.copies.places import place_of
from broker.app.copies.series import runs
from broker.cluster.keys import Keys
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Put
from tests.harness.metadata import MemoryMetadata, MemoryStore

OLD, NEW = Keys("/stampede/mq/old"), Keys("/stampede/mq/new")
OWNERS = [f"old-owner-{n}" for n in range(11)]


@pytest.fixture
def store(monkeypatch):
    """A cluster of eleven owners. Its ninth slot misses a disk; one is led by the last owner."""
    store = MemoryStore()
    monkeypatch.setattr(cluster_cli, "connect", lambda settings: MemoryMetadata(store))
    for name in OWNERS:
        member = Member(name, "owner", f"{name}:1", "boot", disk=f"disk-of-{name}")
        write(store, OLD.member("owner", name), member.encode())
        write(store, OLD.disk(name), f"disk-of-{name}".encode())
    for slot in range(256):
        three = tuple(OWNERS[(slot + n) % 11] for n in range(3))
        isr = ("old-owner-9@gone",) if slot == 9 else three
        write(store, OLD.slot(slot), SlotRecord(slot, 4, three[0], three, isr).encode())
    write(store, OLD.user("ada/é"), b'{"hash": "x"}')
    write(store, OLD.marker(OLD.user("ada/é")), b'{"uid": "u"}')
    write(store, OLD.subscription("me.news"), b"news\xff")
    write(store, OLD.possession, b"{}")
    write(store, OLD.applied_by("old-owner-0"), b"{}")
    write(store, OLD.cordon("old-owner-0"), b"")
    return store


def write(store, key, value):
    store.commit([], [Put(key, value)])


def run(*args, status=0, keys=OLD):
    line = [*map(str, args), "--set", f"etcd.prefix={keys.root.rstrip('/')}"]
    done = CliRunner().invoke(cluster, line, catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.output


def copied(folder, run_name="2026-11-27T02-00-00Z"):
    place = folder / run_name
    run("backup", place)
    for name in OWNERS:
        (place / f"{name}.tar").write_bytes(b"x" * 100)
    run("backup", place, "--complete")
    return place


def new_owners(count=11):
    return ",".join(f"new-owner-{n}" for n in range(count))


def test_a_new_cluster_has_what_the_old_one_had_under_its_own_names(store, tmp_path):
    words = tmp_path / "words"
    place = copied(tmp_path)
    text = run("restore", place, "--owners", new_owners(), "--report", words, keys=NEW)
    assert f"new-owner-10: stampede restore {place}/old-owner-10.tar --whole-cluster" in text
    assert json.loads(words.read_text()).items() >= {"owners": 11, "head": "old-owner"}.items()
    last = SlotRecord.decode(10, store.keys[NEW.slot(10)].value, 0)
    assert last == SlotRecord(10, 4, "new-owner-10", ("new-owner-10", "new-owner-0", "new-owner-1"),
                              ("new-owner-10", "new-owner-0", "new-owner-1"))  # fmt: skip
    assert SlotRecord.decode(9, store.keys[NEW.slot(9)].value, 0).isr == ("new-owner-9@gone",)
    assert store.keys[NEW.disk("new-owner-3")].value == b"disk-of-old-owner-3"
    assert store.keys[NEW.user("ada/é")].value == b'{"hash": "x"}'
    assert store.keys[NEW.subscription("me.news")].value == b"news\xff"
    for key in (NEW.marker(NEW.user("ada/é")), NEW.possession, NEW.applied_by("old-owner-0"), NEW.cordon("old-owner-0"),
                NEW.member("owner", "old-owner-0")):  # fmt: skip
        assert key not in store.keys


def test_doing_it_again_changes_nothing_and_another_backup_is_refused(store, tmp_path):
    place = copied(tmp_path)
    run("restore", place, "--owners", new_owners(), keys=NEW)
    write(store, NEW.slot(0), SlotRecord(0, 99, "new-owner-5", ("new-owner-5",), ("new-owner-5",)).encode())
    del store.keys[NEW.slot(1)]  # as after a crash in the middle
    run("restore", place, "--owners", new_owners(), keys=NEW)
    assert SlotRecord.decode(0, store.keys[NEW.slot(0)].value, 0).epoch == 99, (
        "what has lived since is not written over"
    )
    assert NEW.slot(1) in store.keys
    other = copied(tmp_path, "2026-11-27T03-00-00Z")
    assert "there is a cluster" in run("restore", other, "--owners", new_owners(), status=1, keys=NEW)


def test_nothing_is_restored_below_who_is_at_work(store, tmp_path):
    place = copied(tmp_path)
    write(store, NEW.member("edge", "e"), Member("e", "edge", "e:1", "boot").encode())
    assert "e is at work" in run("restore", place, "--owners", new_owners(), status=1, keys=NEW)
    assert NEW.slot(0) not in store.keys


def test_other_owners_than_there_were_are_told(store, tmp_path):
    place = copied(tmp_path)
    said = run("restore", place, "--owners", new_owners(3), status=1, keys=NEW)
    assert "is of 11 owners and this cluster has 3" in said


def test_what_is_not_complete_does_not_count(store, tmp_path):
    place = tmp_path / "2026-11-27T02-00-00Z"
    assert "begin with" in run("backup", place, "--complete", status=1)
    run("backup", place)
    assert "already" in run("backup", place, status=1)
    for name in OWNERS[1:]:
        (place / f"{name}.tar").write_bytes(b"x")
    assert "there is no old-owner-0.tar" in run("backup", place, "--complete", status=1)
    assert "not complete" in run("restore", place, "--owners", new_owners(), status=1, keys=NEW)
    assert "no complete backup" in run("restore", tmp_path, "--latest", "--owners", new_owners(), status=1, keys=NEW)


def test_what_lost_a_piece_later_is_told(store, tmp_path):
    place = copied(tmp_path)
    (place / "old-owner-4.tar").write_bytes(b"x" * 99)
    said = run("restore", place, "--owners", new_owners(), status=1, keys=NEW)
    assert "old-owner-4.tar has 99 bytes, not 100" in said


def test_the_newest_complete_one_is_the_latest(store, tmp_path):
    copied(tmp_path, "2026-11-25T00-00-00Z")
    copied(tmp_path, "2026-11-26T00-00-00Z")
    run("backup", tmp_path / "2026-11-27T00-00-00Z")
    words = tmp_path / "words"
    run("restore", tmp_path, "--latest", "--owners", new_owners(), "--report", words, keys=NEW)
    assert json.loads(words.read_text())["run"] == "2026-11-26T00-00-00Z"


def test_only_so_many_are_kept(store, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").write_text("x")
    for day in (20, 21, 23, 24):
        copied(tmp_path, f"2026-11-{day}T00-00-00Z")
    run("backup", tmp_path / "2026-11-22T00-00-00Z")  # one that failed
    place = tmp_path / "2026-11-25T00-00-00Z"
    run("backup", place)
    for name in OWNERS:
        (place / f"{name}.tar").write_bytes(b"x")
    assert "--keep goes with" in run("backup", place, "--keep", 2, status=2)
    words = tmp_path / "mine/words"
    run("backup", place, "--complete", "--keep", 2, "--report", words)
    assert json.loads(words.read_text())["gone"] == [f"2026-11-{day}T00-00-00Z" for day in (20, 21, 22, 23)]
    assert runs(place_of(str(tmp_path))) == ["2026-11-24T00-00-00Z", "2026-11-25T00-00-00Z"]
    assert (tmp_path / "mine/letter").exists() and not (tmp_path / "2026-11-22T00-00-00Z").exists()


def test_a_backup_that_was_damaged_is_said_in_one_line(store, tmp_path):
    place = copied(tmp_path)
    (place / "complete.json").write_text("{")
    assert "complete.json is damaged" in run("restore", place, "--owners", new_owners(), status=1, keys=NEW)
    (place / "complete.json").write_text('{"format": 9}')
    assert "matching release" in run("restore", place, "--owners", new_owners(), status=1, keys=NEW)


def test_where_there_is_no_cluster_there_is_no_backup(store, tmp_path):
    assert "there is no cluster below" in run("backup", tmp_path / "x", status=1, keys=NEW)
    assert not (tmp_path / "x").exists()
