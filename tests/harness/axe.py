"""axe-core, which looks for what keeps people from using a page; from npm, kept in the user's cache."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .browser import Page

VERSION = "4.10.3"


def axe() -> str:
    """Its source. Skips the test where it cannot be had."""
    folder = Path.home() / ".cache" / "stampede-axe" / VERSION
    source = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        if shutil.which("npm") is None:
            pytest.skip("no npm to get axe-core: the console's accessibility is not checked")
        folder.mkdir(parents=True, exist_ok=True)
        line = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        done = subprocess.run([*line, "--prefix", str(folder), f"axe-core@{VERSION}"], capture_output=True, text=True)
        if done.returncode != 0 or not source.exists():
            pytest.skip(f"npm cannot get axe-core, the console's accessibility is not checked: {done.stderr[-200:]}")
    return source.read_text()


async def violations(page: Page) -> list[str]:
    """What it finds on the page as it is: rule, impact, and the first place of each."""
    told = await page.value("axe.run().then((found) => JSON.stringify(found.violations))")
    return [f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]}" for one in json.loads(told)]
