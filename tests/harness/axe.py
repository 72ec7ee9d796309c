"""axe-core, which looks for what keeps people from using a page; from npm, kept in the user's cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .browser import Page
from .fetching import from_npm

VERSION = "4.10.3"


def axe() -> str:
    """Its source. Skips the test where it cannot be had."""
    folder = Path.home() / ".cache" / "stampede-axe" / VERSION
    source = folder / "node_modules" / "axe-core" / "axe.min.js"
    if lacks := from_npm(folder, f"axe-core@{VERSION}"):
        pytest.skip(f"{lacks}: the console's accessibility is not checked")
    return source.read_text()


async def violations(page: Page) -> list[str]:
    """What it finds on the page as it is: rule, impact, and the first place of each."""
    told = await page.value("axe.run().then((found) => JSON.stringify(found.violations))")
    return [f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]}" for one in json.loads(told)]
