"""The optional wheel with a compiled reader (docs/adr/0022), as who wants it builds it: by the hook of hatch_build.py.

Rule: built once and without the network; the reader's own tests and the fuzz corpus run on what the wheel has. What
STOMP says of each frame takes longer: make test-compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from hatch_build import MODULES, ROOT

SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "broker", "operator", "pipeline")
WHERE = "import importlib, sys\nfor name in sys.argv[1:]: print(importlib.import_module(name).__file__)"


def needs_compiler() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler here ({compiler})")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("no Python.h here (Debian: python3-dev)")


def run(*line: str, cwd: Path = ROOT, **more: str) -> str:
    """What it has said; fails with that if it fails."""
    done = subprocess.run(
        [sys.executable, *line], cwd=cwd, env=os.environ | more, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.timeout(400)
def test_the_compiled_wheel_is_built_and_its_reader_passes_the_tests_of_the_reader(tmp_path: Path) -> None:
    needs_compiler()
    # A copy, as in the image's build: the hook compiles in the folder in which it lies.
    sources, wheels, installed = (tmp_path / name for name in ("sources", "wheels", "installed"))
    sources.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, sources / name)
    pip = ("-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-index", "--no-build-isolation")
    run(*pip, "--wheel-dir", str(wheels), str(sources), STAMPEDE_COMPILED="1")
    [wheel] = wheels.iterdir()
    assert not wheel.name.endswith("-none-any.whl")  # of this Python and machine only
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)

    modules = ["broker.wire." + name.replace("/", ".") for name in MODULES]
    files = run("-c", WHERE, *modules, cwd=installed, PYTHONPATH=str(installed)).split()
    assert len(files) == len(modules)
    assert [each for each in files if not (each.startswith(str(installed)) and each.endswith(".so"))] == []

    run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={installed} . operator pipeline",
        "tests/unit/wire", "tests/fuzz", COMPILED=str(installed),
    )  # fmt: skip
