"""A folder is a backup when its statement is there, and no longer."""

from __future__ import annotations

import pytest

from broker.app.copies.places import place_of, put, whole
from broker.app.copies.series import COMPLETE, Complete, complete, completed, drop_incomplete, prune, read_json, runs
from broker.core.errors import JournalError

METADATA = b'{"format": 1, "takenMs": 7000, "owners": ["a-0", "a-1"]}'


def begun(folder, run):
    place = place_of(str(folder / run))
    put(place, "metadata.json", METADATA)
    put(place, "a-0.tar", b"12")
    put(place, "a-1.tar", b"345")
    return place


def test_it_is_complete_when_all_owners_are_there(tmp_path):
    place = begun(tmp_path, "r1")
    assert runs(place_of(str(tmp_path))) == []
    with pytest.raises(JournalError, match="not complete"):
        completed(place)
    assert complete(place) == completed(place) == Complete(7000, {"a-0": 2, "a-1": 3})
    assert completed(place).nbytes == 5 and runs(place_of(str(tmp_path))) == ["r1"]
    before = whole(place, COMPLETE)
    complete(place)  # whoever was taken away before he could say so does it again
    assert whole(place, COMPLETE) == before


def test_the_statement_goes_first(tmp_path, monkeypatch):
    """Whoever is killed while a backup is taken away leaves none that looks whole."""
    for run in ("r1", "r2"):
        complete(begun(tmp_path, run))
    place, gone = place_of(str(tmp_path)), []
    monkeypatch.setattr(place, "remove", gone.append)
    assert prune(place, 1) == ["r1"]
    assert gone[0] == "r1/complete.json" and len(gone) == 4


def test_nothing_goes_before_there_is_one(tmp_path):
    begun(tmp_path, "r1")
    begun(tmp_path, "r2")
    assert prune(place_of(str(tmp_path)), 1) == []


def test_what_failed_before_goes_when_the_next_one_begins(tmp_path):
    """A series that fails each ten minutes would fill its volume, and could never become complete again."""
    complete(begun(tmp_path, "r1"))
    for run in ("r2", "r3", "r5", "mq/nightly/r2"):
        begun(tmp_path, run)
    place = place_of(str(tmp_path))
    put(place, "r0/metadata.json", b'{"format": 1, "album": "sea"}')
    assert drop_incomplete(place, "r4") == ["r2", "r3"]
    assert {name.rpartition("/")[0] for name in place.sizes()} == {"r0", "r1", "r5", "mq/nightly/r2"}


def test_what_is_younger_than_the_newest_one_stays(tmp_path):
    """Somebody may be making it."""
    complete(begun(tmp_path, "r1"))
    begun(tmp_path, "r2")
    assert prune(place_of(str(tmp_path)), 1) == []


def test_series_inside_and_folders_of_others_are_left_alone(tmp_path):
    """A bucket that a StompBackup copies into (mq/nightly/…) and that somebody copies into by hand."""
    for run in ("2026-1", "2026-2", "mq/nightly/2026-1", "mq/nightly/2026-2"):
        complete(begun(tmp_path, run))
    place = place_of(str(tmp_path))
    put(place, "2025-photos/metadata.json", b'{"format": 1, "album": "sea"}')
    put(place, "2025-photos/a.jpg", b"1")
    before = {name for name in place.sizes() if not name.startswith("2026-1/")}
    assert runs(place) == ["2026-1", "2026-2"] and prune(place, 7) == []
    assert prune(place, 1) == ["2026-1"] and set(place.sizes()) == before


def test_what_is_taken_away_half_is_taken_away_by_the_next_one(tmp_path, monkeypatch):
    for run in ("r1", "r2"):
        complete(begun(tmp_path, run))
    place, gone = place_of(str(tmp_path)), []
    monkeypatch.setattr(place, "remove", gone.append)
    prune(place, 1)
    assert gone[-1] == "r1/metadata.json"


@pytest.mark.parametrize(("text", "said"), [(b"{", "damaged"), (b"[]", "format 1"), (b'{"format": 2}', "format 1")])
def test_what_cannot_be_read_is_said(tmp_path, text, said):
    place = place_of(str(tmp_path))
    put(place, "x.json", text)
    with pytest.raises(JournalError, match=said):
        read_json(place, "x.json")


def test_a_statement_that_says_too_little_is_damaged(tmp_path):
    place = place_of(str(tmp_path))
    put(place, COMPLETE, b'{"format": 1}')
    with pytest.raises(JournalError, match="damaged"):
        completed(place)
