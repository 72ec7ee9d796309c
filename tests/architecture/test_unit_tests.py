"""A module has a test module of its own in its room: whoever changes one knows where to look, and where to add.

Rule: the number below may only shrink. `broker/journal/recovery/recovery.py` is tested by
`tests/unit/journal/test_recovery.py` (in a folder of the room, if need be); tests of several modules together stand
beside these, under a name of what they are about.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = 255
"""Modules that have none yet, of all rooms together."""


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


def test_fewer_and_fewer_modules_have_no_tests_of_their_own():
    missing = {room: [path.stem for path in modules(room) if f"test_{path.stem}" not in names(room)] for room in ROOMS}
    count = sum(map(len, missing.values()))
    assert count <= WITHOUT, f"{count}: write tests/unit/ROOM/test_NAME.py for what is new: {missing}"
