"""A module has a test module of its own in its room: whoever changes one knows where to look, and where to add.

Rule: there is none without. `broker/journal/recovery/recovery.py` is tested by
`tests/unit/journal/test_recovery.py` (in a folder of the room, if need be); tests of several modules together stand
beside these, under a name of what they are about. A module without a decision (constants, enums, protocols, records: no
function of it branches, loops, compares or catches) promises nothing that a test could find broken, and needs none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

DECISIONS = (
    *(ast.If, ast.IfExp, ast.Match, ast.Compare, ast.BoolOp),
    *(ast.For, ast.AsyncFor, ast.While, ast.comprehension),
    *(ast.Try, ast.With, ast.AsyncWith),
)


def decides(path: Path) -> bool:
    """Has it a function that does one thing or another?"""
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(isinstance(node, DECISIONS) for function in functions for node in ast.walk(function))


def modules(room: str) -> Iterator[Path]:
    for path in sorted((ROOT / room).rglob("*.py")):
        if path.name not in ("__init__.py", "__main__.py") and "_pb2" not in path.name:
            yield path


def names(room: str) -> set[str]:
    name = room.rpartition("/")[2]
    beside = [ROOT / "tests" / "unit" / name, ROOT / "tests" / name.removeprefix("broker_")]
    found = {path.stem for folder in beside if folder.is_dir() for path in folder.rglob("test_*.py")}
    return found | {stem.replace("test_spark_", "test_") for stem in found}  # the prefix says that they need PySpark


ROOMS = [
    *(f"broker/{path.name}" for path in sorted((ROOT / "broker").iterdir()) if (path / "__init__.py").is_file()),
    "operator/broker_operator",
    "pipeline/broker_pipeline",
]


def without(room: str) -> list[str]:
    return [it.stem for it in modules(room) if f"test_{it.stem}" not in names(room) and decides(it)]


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_that_decides_something_has_tests_of_its_own(room):
    assert not without(room), "write tests/unit/ROOM/test_NAME.py for what is new"


def test_a_module_without_decisions_is_recognised(tmp_path):
    plain, deciding = tmp_path / "plain.py", tmp_path / "deciding.py"
    plain.write_text("class A:\n    x: int = 1\n    def name(self) -> int:\n        return self.x\n")
    deciding.write_text("def first(it: list[int]) -> int:\n    return it[0] if it else 0\n")
    assert not decides(plain)
    assert decides(deciding)


def test_what_is_mutated_and_what_must_notice_it_is_there():
    """A test file that has moved would make every change of its module look noticed."""
    from tests.mutation.targets import TARGETS

    named = [f"broker/{module.replace('.', '/')}.py" for module in TARGETS]
    named += [f"tests/unit/{file}" for files in TARGETS.values() for file in files]
    assert [file for file in named if not (ROOT / file).is_file()] == []
