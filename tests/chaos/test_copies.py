"""What is said of a copy: each that misses or doubles something, planted, is found, and what is on its way is not."""

from __future__ import annotations

import json
import random
from base64 import b64encode

import pytest

from . import copies
from .copies import Copy, compare, damage, read, salvaged
from .history import Event, History, Kind
from .world import body_of


def sent(key: str, at: float, receipt: float = 0.0, tx: str = "") -> list[Event]:
    return [Event(Kind.SENT, key, at, tx=tx), *([Event(Kind.RECEIPTED, key, receipt)] if receipt else [])]


HISTORY = History([
    *sent("chaos.vault/u/0", 1, 2), *sent("chaos.vault/u/1", 3, 3.5), *sent("chaos.vault/u/2", 9, 11),
    *sent("chaos.plain/p/0", 1, 2), Event(Kind.DELIVERED, "chaos.plain/p/0", 3, who="c"),
    Event(Kind.SETTLED, "chaos.plain/p/0", 4, who="c"),
    *sent("chaos.plain/p/1", 8, 9), Event(Kind.DELIVERED, "chaos.plain/p/1", 12, who="c"),
    *sent("s1:chaos.news.x/n/0", 1, 2, tx="fan chaos.news.x/n/0"), *sent("chaos.a/w/0", 1, 2, tx="w"),
])  # fmt: skip
WHOLE = {
    ("chaos.vault", 1, 1): "chaos.vault/u/0", ("chaos.vault", 1, 2): "chaos.vault/u/1",
    ("s1.mine", 2, 1): "chaos.news.x/n/0", ("DLQ", 3, 1): "chaos.plain/p/0",
}  # fmt: skip


def test_a_whole_copy_has_no_findings():
    """Taken at 10: u/2 had no receipt by then, and p/1 went to somebody meanwhile."""
    assert compare(Copy(dict(WHOLE)), HISTORY, 10, 13) == []


@pytest.mark.parametrize(("change", "finding"), [
    ({("chaos.vault", 1, 2): None}, "chaos.vault/u/1 had its receipt before"),
    ({("s1.mine", 2, 1): None}, "s1:chaos.news.x/n/0 had its receipt before"),
    ({("chaos.plain", 4, 1): "chaos.plain/p/0"}, "chaos.plain/p/0 was settled before"),
    ({("chaos.vault", 1, 7): "chaos.vault/u/0"}, "chaos.vault/u/0 is in it 2 times"),
])  # fmt: skip
def test_what_is_missing_or_too_much_is_found(change, finding):
    messages = {place: key for place, key in {**WHOLE, **change}.items() if key is not None}
    (found,) = compare(Copy(messages), HISTORY, 10, 13)
    assert found.startswith(f"backup: {finding}")


def test_what_moves_from_one_slot_to_another_is_there_once():
    """Seed 20261202: an expired message was parked in the slot of where it goes, and stood where it was."""
    parked = {("$tx.17", 2, 9): "chaos.vault/u/0"}
    assert compare(Copy(dict(WHOLE) | parked), HISTORY, 10, 13) == []
    alone = {place: key for place, key in WHOLE.items() if key != "chaos.vault/u/0"}
    assert compare(Copy(alone | parked), HISTORY, 10, 13) == [], "it is not missing either"


def test_another_body_and_what_was_sent_later_are_found():
    copy = Copy(dict(WHOLE) | {("chaos.vault", 1, 3): "chaos.vault/u/2"}, ["chaos.vault/u/0"])
    assert [line.split(": ")[1] for line in compare(copy, HISTORY, 10, 8)] == [
        "chaos.vault/u/0 has another body in it", "chaos.vault/u/2 is in it, and was sent later",
    ]  # fmt: skip


def test_a_dump_is_read():
    body = body_of("chaos.large/p/1")
    rows: list[dict[str, object]] = [
        {"stampede": "journal", "version": 1},
        {"run": {"slot": 1, "queues": [1, 2], "ids": [[4, 4], [6, 6]], "lines": "a:b\n", "records": [
            f"\n{body_of(key).decode()}\0" for key in ("q/p/0", "q/p/1")]}},
        {"body": "07", "data": b64encode(body[:1000]).decode()},
        {"body": "07", "data": b64encode(body[1000:]).decode()},
        {"run": {"slot": 1, "queues": [1], "ids": [[7, 7]], "lines": "", "records": ["x:1\n\n"],
                 "blob": ["07", len(body)]}},
        {"run": {"slot": 1, "queues": [1], "ids": [[8, 8]], "lines": "", "records": ["x:1\n\nq/p/2 another\0"]}},
        *({"meta": "queue", "slot": 1, "data": {"id": id, "name": name}} for id, name in ((1, "q"), (2, "s1.mine"))),
    ]  # fmt: skip
    copy = read(map(json.dumps, rows))
    assert copy.keys() == ["q/p/0", "s1:q/p/0", "q/p/1", "s1:q/p/1", "chaos.large/p/1", "q/p/2"]
    assert copy.bad == ["q/p/2"]


MANY = Copy({("q", 1, id): f"q/p/{id}" for id in range(40)})
LOST = "kept: 1 messages of q\nLOST: slot 1: records 4–5 (2: messages, …) of q\nLOST: q: message 7: its large body\n"


@pytest.mark.parametrize(("left", "said", "what", "finding"), [
    (range(30), "kept: 30 messages of q\n", "byte", "10 messages are gone and nothing says so"),
    (range(20), LOST, "byte", "20 messages are gone, and 3 records are named"),
    (range(45), "kept: 45 messages of q\n", "body", "5 messages came back"),
    (range(20), LOST, "gone", ""), (range(37), LOST, "byte", ""), (range(40), "", "byte", ""),
])  # fmt: skip
def test_what_a_salvage_loses_without_a_word_is_found(left, said, what, finding):
    found = salvaged(MANY, Copy({("q", 1, id): f"q/p/{id}" for id in left}), said, what)
    assert [line.partition(": ")[2].startswith(finding) for line in found] == ([True] if finding else [])


def test_a_body_that_was_damaged_is_found():
    assert "q/p/1 has another body" in salvaged(MANY, Copy(dict(MANY.messages), ["q/p/1"]), LOST, "body")[0]


def test_damage_changes_one_place_and_spares_the_end(tmp_path):
    for seed in range(40):
        journal = tmp_path / str(seed)
        (journal / "blobs").mkdir(parents=True)
        files = [journal / "1.log", journal / "2.log", journal / "3.log", journal / "blobs" / "7"]
        for file in files:
            file.write_bytes(b"x" * 2000 + bytes(1000))
        what = damage(journal, random.Random(seed))
        changed = [file for file in files if not file.exists() or file.read_bytes() != b"x" * 2000 + bytes(1000)]
        assert len(changed) == 1 and changed[0].name in what and changed[0] is not files[2]


def test_a_copy_that_cannot_be_taken_is_found(tmp_path):
    with copies.Copying(tmp_path / "copy", tmp_path / "nothing", None) as copying:
        (found,) = copying.take()
    assert found.startswith("backup: backup ended with")
