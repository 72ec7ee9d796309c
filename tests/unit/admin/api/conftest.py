"""A standalone broker in this process, and its admin API over HTTP.

Rule: nothing is in it; a test whose broker has users or addresses has a fixture `api` of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.api import Api, running


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path) as api:
        yield api
