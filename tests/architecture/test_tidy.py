"""House rules that a reader relies on and a review would forget: sizes, docstrings, seams, names."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    [*(ROOT / "broker").rglob("*.py"), *(ROOT / "operator").rglob("*.py"), *(ROOT / "pipeline").rglob("*.py")]
)
NAMES = [str(path.relative_to(ROOT)) for path in FILES]
TREES = {path: ast.parse(path.read_text(), str(path)) for path in FILES}

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_FOLDER_LINES = 3000
"""Without lines that are a comment only: whoever adds a reason need not split the file for it."""

BANNED_CALLS = {
    "open", "print", "input", "io.open", "os.open", "os.urandom", "os.getrandom", "uuid.uuid1", "uuid.uuid4",
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.sleep", "datetime.now", "datetime.utcnow", "datetime.datetime.now", "datetime.today", "date.today",
}  # fmt: skip
BANNED_MODULES = {"random", "secrets", "time"}

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(file, call or module) → why it may."""


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def offences(tree: ast.Module) -> set[str]:
    """Banned calls and imports of one file."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found |= {dotted(node.func)} & BANNED_CALLS
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & BANNED_MODULES
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {(node.module or "").split(".")[0]} & BANNED_MODULES
    return found


def functions(tree: ast.Module):
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def size(lines: list[str]) -> int:
    return sum(not line.lstrip().startswith("#") for line in lines)


def test_comments_make_nothing_longer():
    assert size(["# why", "x = 1  # in bytes", "", "    # so"]) == 2


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_size_and_docstring(path):
    text = path.read_text().split("\n")
    lines = size(text) - 1
    assert lines <= MAX_FILE_LINES, f"{lines} lines without comments: split the file"
    long = {f.name: size(text[f.lineno - 1 : f.end_lineno]) for f in functions(TREES[path])}
    assert not {name: n for name, n in long.items() if n > MAX_FUNCTION_LINES}, "split the function"
    assert len(ast.get_docstring(TREES[path]) or "") >= 20, "say what the file is for and its one rule"


def test_a_folder_can_be_known_as_a_whole():
    """Rooms are made of folders, each with a row of its own in the contracts (the pipeline's are in pipeline/)."""
    lines: dict[str, int] = {}
    for path in FILES:
        if "_pb2" not in path.name:
            folder = path.parent.relative_to(ROOT).as_posix()
            lines[folder] = lines.get(folder, 0) + size(path.read_text().split("\n")) - 1
    beyond = {folder: n for folder, n in lines.items() if n > MAX_FOLDER_LINES}
    assert not beyond, f"make folders inside: {beyond}"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_only_seams_ask_the_system(path):
    name = path.relative_to(ROOT).as_posix()
    if name.startswith("broker/seams/"):
        return
    unexpected = {what for what in offences(TREES[path]) if (name, what) not in EXCEPTIONS}
    assert not unexpected, "go through broker/seams, or add an exception with a reason"


def test_exceptions_are_still_needed():
    for (name, what), why in EXCEPTIONS.items():
        assert why
        assert what in offences(ast.parse((ROOT / name).read_text())), f"{name} no longer uses {what}"


def test_the_check_sees_what_it_bans():
    source = "import random\nimport time\nfrom secrets import token_hex\ntime.time()\nprint(open('x'))\n"
    assert offences(ast.parse(source)) == {"random", "time", "secrets", "time.time", "print", "open"}


def test_no_module_shadows_the_standard_library():
    tops = {
        p.name if p.is_dir() else p.stem for p in ROOT.iterdir() if (p / "__init__.py").exists() or p.suffix == ".py"
    }
    assert not tops & sys.stdlib_module_names
    assert not (ROOT / "operator" / "__init__.py").exists(), "it would shadow the stdlib module `operator`"


IMPORTED = re.compile(r"^ *from ((?:broker|broker_operator)(?:\.\w+)*) import \(?([^()#]+?)(?:\)|#|$)", re.MULTILINE)


def test_what_tests_import_of_the_product_is_there():
    """mypy does not see the tests: after a renaming they would only say so when they are run."""
    known = {name.removeprefix("operator/").removeprefix("pipeline/")[:-3].replace("/", "."): path.read_text()
             for name, path in zip(NAMES, FILES, strict=True)}  # fmt: skip
    missing: set[str] = set()
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]:
        for module, names in IMPORTED.findall(path.read_text()):
            text = known.get(module, known.get(f"{module}.__init__"))
            for name in (part.split(" as ")[0].strip() for part in names.split(",")):
                there = text is not None and (
                    re.search(rf"\b{name}\b", text)
                    or f"{module}.{name}" in known
                    or f"{module}.{name}.__init__" in known
                )
                missing |= set() if there else {f"{path.relative_to(ROOT)}: {module}.{name}"}
    assert not missing
