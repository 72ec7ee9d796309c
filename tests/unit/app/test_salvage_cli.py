"""`journal salvage` and `load`: the damaged folder is kept, no name that is taken is touched, a loss is status 3."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from broker.app.commands import salvage_cli
from broker.app.commands.salvage_cli import load, salvage
from broker.core.errors import JournalError
from broker.journal.tools import salvage as tool
from broker.journal.tools import transcript


@pytest.fixture
def salvages(monkeypatch, tmp_path):
    """(exit status, output, what was salvaged: from, to)"""

    def run(*args: str, lost: bool = False):
        asked = []

        def fake(files: object, here: str, new: str, settings: object):
            asked.append((here, new))
            (tmp_path / new).mkdir(parents=True)
            (tmp_path / new / "made").touch()
            notes: list[str] = []
            return SimpleNamespace(lost=lost, notes=notes, lines=lambda: ["3 messages kept", *notes])

        monkeypatch.setattr(tool, "salvage", fake)
        result = CliRunner().invoke(salvage, [*args, "--data", str(tmp_path)])
        return result.exit_code, result.output, asked

    return run


@pytest.mark.parametrize(("lost", "status"), [(False, 0), (True, 3)])
def test_from_one_folder_to_another_and_what_was_lost_is_a_status(salvages, tmp_path, lost, status):
    (tmp_path / "old").mkdir()
    here, new = str(tmp_path / "old"), str(tmp_path / "new")
    assert salvages(here, new, lost=lost) == (status, f"3 messages kept\nsalvaged into {new}\n", [(here, new)])
    assert (tmp_path / "old").is_dir() and (tmp_path / "new/made").exists()


def test_without_names_the_damaged_one_is_put_aside_under_a_name_that_is_free(salvages, tmp_path):
    journal = tmp_path / "journal"
    for taken in (journal, tmp_path / "journal.damaged", tmp_path / "journal.salvaged"):
        taken.mkdir()
        (taken / "old").touch()
    status, text, asked = salvages()
    assert status == 0 and asked == [(str(journal), f"{journal}.salvaged.1")]
    assert (journal / "made").exists() and not (journal / "old").exists()
    assert (tmp_path / "journal.damaged.1/old").exists() and (tmp_path / "journal.damaged/old").exists()
    assert f"{journal}.damaged.1 now, yours to delete" in text and text.endswith(f"salvaged into {journal}\n")


def test_one_folder_alone_or_one_that_is_not_there_is_refused_before_anything_happens(salvages, tmp_path):
    for args in ((str(tmp_path),), (str(tmp_path / "none"), str(tmp_path / "new"))):
        status, _, asked = salvages(*args)
        assert status == 2 and asked == []


def test_a_dump_is_read_line_by_line_and_a_line_that_is_none_is_named(monkeypatch, tmp_path):
    read = []

    def fake(rows, builder):
        for row in rows:
            read.append(row)
        return len(read)

    monkeypatch.setattr(transcript, "load", fake)
    args = ["-", str(tmp_path / "new"), "--data", str(tmp_path)]
    result = CliRunner().invoke(load, args, input='{"a": 1}\n{"b": 2}\n')
    assert result.exit_code == 0 and "2 messages loaded into" in result.output and read == [{"a": 1}, {"b": 2}]
    with pytest.raises(JournalError, match="line 2 is no JSON"):
        list(salvage_cli._rows(io.StringIO('{"a": 1}\nwhat\n')))
