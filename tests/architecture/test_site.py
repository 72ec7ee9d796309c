"""Every page is in the index of docs/, every link and anchor leads somewhere: the site builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
API = b'{"openapi": "3.1.0", "info": {"title": "Stampede", "version": "0"}, "paths": {}}'
"""In place of the document of a broker, which make site starts."""


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    told = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#:]+)", index)}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md"}
    assert sorted(str(page) for page in pages - told) == []


def test_the_site_builds_without_a_warning(tmp_path):
    sys.path.insert(0, str(SITE))
    try:
        import source
    finally:
        sys.path.remove(str(SITE))
    source.lay_out(tmp_path / "source", API)
    told = yaml.safe_load((SITE / "mkdocs.yml").read_text())
    own = tmp_path / "mkdocs.yml"
    own.write_text(yaml.safe_dump(told | {"docs_dir": str(tmp_path / "source"), "site_dir": str(tmp_path / "site")}))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(own)],
        capture_output=True, text=True, timeout=300, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, "\n".join(line for line in done.stderr.split("\n") if not line.startswith("INFO"))
