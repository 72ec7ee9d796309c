"""Writes constraints.txt: the exact versions of all libraries in the image, as this environment has them.

Rule: everything that pyproject.toml asks for, with all that follows from it, and nothing else.
"""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("identity", "operator", "redis", "xpath")
"""What the Dockerfile installs."""


def versions() -> dict[str, str]:
    """Name → version. Raises PackageNotFoundError for what is not installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    open = [*project["dependencies"], *(text for extra in EXTRAS for text in project["optional-dependencies"][extra])]
    found: dict[str, str] = {}
    while open:
        wanted = Requirement(open.pop())
        name = canonicalize_name(wanted.name)
        if name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        distribution = importlib.metadata.distribution(wanted.name)
        found[name] = distribution.version
        open += distribution.requires or []
    return found


def main() -> None:
    lines = ["# Versions in the image. Renewed by `make constraints`."]
    lines += [f"{name}=={version}" for name, version in sorted(versions().items())]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
