"""What only disturbs a measurement is behind it, with root and without."""

from __future__ import annotations

import os

import pytest

from tests.harness.priorities import LAST, behind


@pytest.mark.parametrize(
    ("own", "nice", "more"),
    [(-20, 0, 20), (0, 0, 5), (3, 0, 5), (0, LAST, 19), (-20, LAST, 39), (17, 0, 2), (19, 0, 0)],
)
def test_who_disturbs_is_behind_wherever_this_one_stands(
    own: int, nice: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpriority", lambda *_: own)
    assert behind(nice) == ["nice", "-n", str(more)]
