"""A module has a test module of its own in its room: whoever changes one knows where to look, and where to add.

Rule: the numbers below may only shrink. `broker/journal/recovery.py` is tested by `tests/unit/journal/test_recovery.py`
(in a folder of the room, if need be); tests of several modules together stand beside these, under a name of what they
are about.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = {
    "broker/admin": 22,
    "broker/app": 29,
    "broker/client": 10,
    "broker/cluster": 16,
    "broker/config": 15,
    "broker/core": 16,
    "broker/edge": 30,
    "broker/engine": 42,
    "broker/journal": 20,
    "broker/link": 13,
    "broker/metadata": 2,
    "broker/owner": 20,
    "broker/rpc": 3,
    "broker/seams": 6,
    "broker/selector": 10,
    "broker/wire": 8,
    "operator/broker_operator": 23,
    "pipeline/broker_pipeline": 21,
}
"""Room → modules that have none yet."""


def modules(room: str) -> Iterator[Path]:
    for path in sorted((ROOT / room).rglob("*.py")):
        if path.name not in ("__init__.py", "__main__.py") and "_pb2" not in path.name:
            yield path


def names(room: str) -> set[str]:
    name = room.rpartition("/")[2]
    beside = [ROOT / "tests" / "unit" / name, ROOT / "tests" / name.removeprefix("broker_")]
    return {path.stem for folder in beside if folder.is_dir() for path in folder.rglob("test_*.py")}


ROOMS = [
    *(f"broker/{path.name}" for path in sorted((ROOT / "broker").iterdir()) if (path / "__init__.py").is_file()),
    "operator/broker_operator",
    "pipeline/broker_pipeline",
]


@pytest.mark.parametrize("room", ROOMS)
def test_fewer_and_fewer_modules_have_no_tests_of_their_own(room):
    there = names(room)
    missing = [path.stem for path in modules(room) if f"test_{path.stem}" not in there]
    most = WITHOUT.get(room, 0)
    assert len(missing) <= most, f"write tests/unit/{room.rpartition('/')[2]}/test_NAME.py for the new one: {missing}"
