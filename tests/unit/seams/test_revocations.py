"""Lists of revoked certificates."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.core.certificates import Issued
from broker.seams.revocations import issued, revoked
from tests.abuse.certificates import authority, revocations
from tests.abuse.certificates import issued as signed

pytest.importorskip("cryptography")
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def test_what_is_on_a_list_is_known_by_its_issuer_and_number(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    ours, theirs = authority(here, "ours"), authority(there, "theirs")
    gone, stays = signed(here, "gone", ours)[0], signed(here, "stays", ours)[0]
    whole = tmp_path / "all.pem"
    whole.write_bytes(revocations(there, theirs).read_bytes() + revocations(here, ours, gone).read_bytes())
    found = revoked(str(whole))
    assert issued(gone.read_bytes()) in found and issued(stays.read_bytes()) not in found
    (one,) = found
    assert one.issuer == "ours" and Issued("theirs", one.serial) not in found


def test_a_file_without_a_list_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("no list")
    with pytest.raises(ValueError, match="no list of revoked"):
        revoked(str(tmp_path / "x.pem"))
