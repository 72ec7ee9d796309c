"""Pages made from the source are as the source says, and no setting goes unexplained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.app.docs import BEGIN, PAGES, renewed
from broker.config.catalogue import leaves
from broker.config.describe import help_text
from broker.core.errors import Code
from broker.core.reasons import Reason

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
