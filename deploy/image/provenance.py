"""`make provenance`: what was built, of which commit and of which files: an in-toto statement with SLSA's provenance.

    .venv/bin/python deploy/image/provenance.py OUT FILE …     of these artifacts (wheels, SBOMs, an image's archive)

Who has an artifact compares its SHA-256 with `subject`, checks out the commit and finds the same lists of libraries. It
is signed by whoever releases (docs/releasing.md): an unsigned one says what was built, not who says so.

Rule: only what can be looked at here is claimed. A tree with changes that are in no commit has no provenance.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD_TYPE = "https://stampede.dev/build/make/v1"
MATERIALS = (
    "Dockerfile", "pipeline/Dockerfile", "deploy/image/libraries.txt", "deploy/image/pipeline.txt",
    "deploy/image/build.txt", "pyproject.toml",
)  # fmt: skip
"""What says what goes into the images."""


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git(*words: str, root: Path = ROOT) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def bases(root: Path = ROOT) -> list[str]:
    """The base images that the Dockerfiles name."""
    found = [re.findall(r"^ARG BASE=(\S+)", (root / file).read_text(), re.MULTILINE) for file in MATERIALS[:2]]
    return sorted({image for images in found for image in images})


def statement(files: Sequence[Path], root: Path = ROOT) -> dict[str, Any]:
    """Raises SystemExit where the tree is not that of a commit: files that are in none go into a wheel as well."""
    if changed := git("status", "--porcelain", root=root):
        raise SystemExit(f"there are changes in no commit, so nobody could build the same:\n{changed}")
    commit = git("rev-parse", "HEAD", root=root)
    sources = [{"uri": f"git+file:.@{commit}", "digest": {"gitCommit": commit}}]
    sources += [{"uri": name, "digest": {"sha256": sha256(root / name)}} for name in MATERIALS]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": sha256(file)}} for file in sorted(files)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "baseImages": bases(root)},
                "internalParameters": {"python": platform.python_version(), "machine": platform.machine()},
                "resolvedDependencies": sources,
            },
            "runDetails": {
                "builder": {"id": os.environ.get("BUILDER_ID", "https://stampede.dev/builder/local")},
                "metadata": {"invocationId": os.environ.get("BUILD_ID", commit)},
            },
        },
    }


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    out, *files = map(Path, arguments)
    if missing := [str(file) for file in files if not file.is_file()]:
        raise SystemExit(f"not there: {', '.join(missing)}")
    out.write_text(json.dumps(statement(files), indent=1, sort_keys=True) + "\n")
    print(out)


if __name__ == "__main__":
    main(sys.argv[1:])
