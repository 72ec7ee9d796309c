"""Folders of servers that outlive a test: pytest keeps those until the whole run has ended, and a broker's has 192 MiB.

Rule: what may explain a failed test stays.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def scratch(request: pytest.FixtureRequest, name: str) -> Iterator[Path]:
    """A folder for a fixture, which deletes it unless a test has failed meanwhile, or the fixture itself. (Tests have
    tmp_path, with which pytest does the same.)"""
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    folder = factory.mktemp(name)
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)
