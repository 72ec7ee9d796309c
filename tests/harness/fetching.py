"""What tests get from outside (npm packages, jars) and keep for the next run.

Rule: it is fetched by one process at a time, and is there only when it is whole: workers of pytest and other runs look
for the same folder in the same moment. Two `npm install` in one folder left a package without its files, of which each
test that needed it then spoke.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NPM_S = 120.0
NPM = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Nobody else fetches into it. Makes the folder, which is the lock as well."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def from_npm(folder: Path, *packages: str) -> str:
    """folder/node_modules has these packages, or those of its package.json. Returns why not, "": it has.

    A stamp in node_modules says that npm has ended well, and with what."""
    stamp, wanted = folder / "node_modules" / ".whole", " ".join(packages) or (folder / "package.json").read_text()
    with alone_in(folder):
        if stamp.exists() and stamp.read_text() == wanted:
            return ""
        if shutil.which("npm") is None:
            return "npm is not installed"
        try:
            done = subprocess.run(
                [*NPM, "--prefix", str(folder), *packages], cwd=folder, capture_output=True, text=True, timeout=NPM_S
            )
        except subprocess.TimeoutExpired:
            return f"npm install has not ended within {NPM_S:g} s"
        if done.returncode != 0:
            return f"npm install failed: {done.stderr.strip()[-200:]}"
        stamp.write_text(wanted)
        return ""
