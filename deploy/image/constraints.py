"""Writes the exact versions of all libraries in the image, as this environment has them, and the hashes of their files.

    constraints.txt   name==version, for who installs with `-c`
    libraries.txt     the same with the SHA-256 of each file that the index has of that version: the image's
    pipeline.txt      likewise, what the pipeline's image has (pipeline/Dockerfile)
    build.txt         likewise, what makes the image's package (hatchling) and what comes as sources only (setuptools)

Rule: everything that pyproject.toml asks for, with all that follows from it, and nothing else. Hashes are those of the
index (PEP 691), of the files for all machines.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from urllib.request import Request, urlopen

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("identity", "operator", "otel", "redis", "store", "xpath")
"""What the Dockerfile installs."""
SOURCES = "setuptools"
"""What makes a wheel of a library that has none: pip would fetch the newest one by itself, without a hash."""
INDEX = "https://pypi.org/simple/"


def versions(wanted: Iterable[str]) -> dict[str, str]:
    """Name → version of these requirements and all that follows. Raises PackageNotFoundError for what is not installed
    here."""
    open, found = list(wanted), dict[str, str]()
    while open:
        requirement = Requirement(open.pop())
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        distribution = importlib.metadata.distribution(requirement.name)
        found[name] = distribution.version
        open += distribution.requires or []
    return dict(sorted(found.items()))


def hashes(name: str, version: str) -> list[str]:
    """SHA-256 of all files of that version. Raises OSError."""
    request = Request(f"{INDEX}{name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urlopen(request, timeout=60) as answer:
        files = json.load(answer)["files"]
    return sorted(each["hashes"]["sha256"] for each in files if _version(each["filename"]) == version)


def _version(file: str) -> str:
    try:
        parsed = parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file)
    except ValueError:
        return ""  # an egg, or older than the rules for names
    return str(parsed[1])


def _hashed(found: dict[str, str], about: str) -> str:
    lines = [f"# {about} Renewed by `make constraints`."]
    for name, version in found.items():
        each = hashes(name, version)
        assert each, f"the index has no {name} {version}"
        lines.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in each)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(sys.argv[1])
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    extras = [text for extra in EXTRAS for text in project["optional-dependencies"][extra]]
    found = versions([*project["dependencies"], *extras])
    lines = [f"{name}=={version}\n" for name, version in found.items()]
    about = "# Versions in the image. Renewed by `make constraints`.\n"
    (folder / "constraints.txt").write_text(about + "".join(lines))
    (folder / "libraries.txt").write_text(_hashed(found, "Libraries of the image and the hashes of their files."))
    pipeline = versions([*project["dependencies"], *project["optional-dependencies"]["pipeline"]])
    (folder / "pipeline.txt").write_text(_hashed(pipeline, "Libraries of the pipeline's image."))
    build = versions([*document["build-system"]["requires"], SOURCES])
    (folder / "build.txt").write_text(_hashed(build, "What makes the image's package, and what comes as sources only."))


if __name__ == "__main__":
    main()
