"""The import contracts of pyproject.toml hold, and cover every room."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_rooms_import_downwards_only():
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 kept, 0 broken" in done.stdout


def test_the_pipeline_knows_the_read_api_and_the_client_only():
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint, "--no-cache", "--config", "pipeline/importlinter.ini"],
        cwd=ROOT, capture_output=True, text=True, timeout=50,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'pipeline'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kept, 0 broken" in done.stdout
