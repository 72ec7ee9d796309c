"""A backup becomes a folder again, checked byte by byte."""

from __future__ import annotations

import pytest

from broker.core.errors import JournalError
from broker.journal.journal import Journal
from broker.journal.tools.backup import STATEMENT
from broker.journal.tools.restore import files_of, refuse_restored, restore
from broker.seams.files import OsFiles
from tests.unit.journal.support import settings

from .test_backup import COPY, contents, pieces, taken, worked


@pytest.fixture
def broker():
    return worked()


def test_a_backup_is_restored(broker, tmp_path):
    target, statement = taken(broker)
    folder = str(tmp_path / "journal")
    assert restore(OsFiles(), pieces(target), folder) == statement
    journal = Journal.open(OsFiles(), folder, settings())
    assert set(contents(journal)) == set(broker.live)
    journal.close(clean=True)
    again = list(files_of(OsFiles(), folder))
    assert {name for name, _ in again} >= set(statement.files) | {STATEMENT}
    with pytest.raises(JournalError, match="not empty"):
        restore(OsFiles(), pieces(target), folder)
    with pytest.raises(JournalError, match="an owner with an older log"):
        refuse_restored(OsFiles(), folder)
    whole = str(tmp_path / "whole" / "journal")
    restore(OsFiles(), pieces(target), whole, marked=False)
    refuse_restored(OsFiles(), whole)


@pytest.mark.parametrize("what", ["missing", "short", "rotten", "more", "no statement", "outside"])
def test_what_does_not_check_is_not_restored(broker, tmp_path, what):
    target, statement = taken(broker)
    name = max(name for name in statement.files if name.endswith(".log"))
    data = bytes(target.disk.names[f"{COPY}/{name}"].data)
    rotten = data[:200] + bytes([data[200] ^ 1]) + data[201:]
    changes = {
        "missing": {name: None},
        "short": {name: data[:-1]},
        "rotten": {name: rotten},
        "more": {f"{99:016x}.log": data},
        "no statement": {STATEMENT: None},
        "outside": {"../../etc/passwd": b"x"},
    }[what]
    folder = tmp_path / "data" / "journal"
    with pytest.raises(JournalError):
        restore(OsFiles(), pieces(target, changes), str(folder))
    assert not folder.exists()
    restore(OsFiles(), pieces(target), str(folder))
