"""Pages made from the source are as the source says, and no setting goes unexplained."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from broker.app.commands.docs import BEGIN, PAGES, renewed
from broker.config.catalogue import leaves
from broker.config.describe import help_text
from broker.core.errors import Code
from broker.core.reasons import Reason

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name):
    page = (DOCS / name).read_text()
    assert page == renewed(page, PAGES[name]()), "run `make docs`"


def test_every_code_and_reason_is_documented():
    page = (DOCS / "errors.md").read_text().partition(BEGIN)[2]
    assert [code.name for code in Code if f"| {code.number} | `{code.name}` |" not in page] == []
    explained = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE))
    assert [reason.value for reason in Reason if len(explained.get(reason.value, "")) < 10] == []
    assert len({code.number for code in Code}) == len(Code), "two codes share a number"


def test_every_setting_is_explained_everywhere():
    page, text = (DOCS / "settings.md").read_text(), help_text()
    for name, leaf in leaves().items():
        assert leaf.help and leaf.unit, name
        assert f"`{name}`" in page
        assert f"  {name}  (" in text


def test_settings_hold_no_secrets():
    """`stampede settings` prints all of them, so secrets belong into files of which a setting names the path."""
    secret = re.compile(r"passw|passcode|secret|token")
    assert [name for name in leaves() if secret.search(name) and not name.endswith("_file")] == []


def test_message_code_is_made_from_the_proto_files():
    """Made by `make proto` with a compiler that is not installed here: the hashes say whether somebody forgot it, or
    edited what was made."""
    listed = dict(line.split()[::-1] for line in (ROOT / "proto" / "SHA256SUMS").read_text().splitlines())
    files = [
        *(ROOT / "proto").rglob("*.proto"),
        *(path for path in (ROOT / "broker").rglob("*_pb2.py*") if path.suffix in (".py", ".pyi")),
    ]
    assert sorted(str(path.relative_to(ROOT)) for path in files) == sorted(listed), "run `make proto`"
    for path in files:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == listed[str(path.relative_to(ROOT))], "run `make proto`"
    for path in (ROOT / "proto").rglob("*.proto"):
        made = ROOT / path.relative_to(ROOT / "proto")
        assert made.with_name(f"{made.stem}_pb2.py").exists(), path
