"""Lays out what the site is made of: the pages of the repository, and the API's document of a running broker.

    .venv/bin/python docs/site/source.py build/site-source

Rule: a copy with the repository's own layout, so that a link means the same here, on the site and on a code host;
no page is written here.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.harness import Broker  # noqa: E402
from tests.harness.waiting import PATIENCE_S  # noqa: E402

PAGES = ("*.md", "docs/**/*.md", "docs/screens/*.png", "docs/plots/*.svg", "docs/*.html", "docs/examples/*", "LICENSE",
         "bench/README.md", "deploy/**/*.md", "deploy/**/*.yaml", "helm/**/*.md",
         "helm/stampede/values*.yaml")  # fmt: skip
API = "docs/api/openapi.json"


def lay_out(folder: Path, api: bytes) -> None:
    """api: the OpenAPI document."""
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in PAGES:
        for page in ROOT.glob(pattern):
            if page.is_file() and not page.is_relative_to(ROOT / "docs/site"):
                copy = folder / page.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, copy)
    document = folder / API
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_bytes(api)
    document.with_name("index.md").write_text(f"# Operations of the API\n\n[OAD({document.name})]\n")


def document_of_a_broker() -> bytes:
    """What /api/v1/openapi.json says. Raises OSError when it does not answer."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        address = f"http://{broker.host}:{broker.admin_port}/api/v1/openapi.json"
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    told: bytes = answer.read()
                return told
            except OSError:  # the API comes some tenths of a second after STOMP
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]), document_of_a_broker())
