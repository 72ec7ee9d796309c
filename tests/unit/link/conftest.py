"""An edge and two owners, fresh for each test."""

from __future__ import annotations

import pytest

from tests.unit.link.two import Two


@pytest.fixture
def two():
    return Two()
