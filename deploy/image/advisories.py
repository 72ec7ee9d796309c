"""`make audit ADVISORIES=FOLDER`: known holes of the pinned libraries, told by files instead of by PyPI, for a machine
that reaches no index.

    advisories.py FOLDER LIST…

FOLDER has OSV entries (*.yaml, *.json), as a checkout of pypa/advisory-database has, or osv.dev's list for PyPI.

Rule: reads and says; exits 1 for a hole, 2 where nothing could be said. How old the newest entry is, is always told:
what came to be known later is not in the files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Entry = Mapping[str, Any]


def pinned(text: str) -> dict[str, str]:
    """name → version of a list of libraries."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE)
    return {str(canonicalize_name(name)): version for name, version in found}


def entries(folder: Path) -> Iterator[Entry]:
    """All that are not withdrawn. JSON is YAML, too. Raises ValueError."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".yaml", ".json") and file.is_file():
            try:
                entry = yaml.load(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (both are safe)
            except yaml.YAMLError as error:
                raise ValueError(f"{file}: {error}") from None
            if isinstance(entry, dict) and "affected" in entry and not entry.get("withdrawn"):
                yield entry


def concerns(entry: Entry, pins: Mapping[str, str]) -> Iterator[str]:
    """Which of the libraries have that hole, as name==version. Raises ValueError for a version that is none."""
    for affected in entry["affected"]:
        package = affected.get("package", {})
        name = str(canonicalize_name(str(package.get("name", ""))))
        if package.get("ecosystem") == "PyPI" and name in pins and _in(affected, pins[name]):
            yield f"{name}=={pins[name]}"


def _in(affected: Mapping[str, Any], version: str) -> bool:
    if version in affected.get("versions", ()):
        return True
    return any(
        _between(each.get("events", ()), Version(version))
        for each in affected.get("ranges", ())
        if each.get("type") == "ECOSYSTEM"
    )


def _between(events: Sequence[Mapping[str, Any]], version: Version) -> bool:
    """By the rules of OSV: the last event that is not behind the version says. Of two at one place `introduced` is the
    last one: OSV does not say, and a hole that is told for nothing is looked up, one that is not told stays."""
    inside = False
    for kind, said in sorted((next(iter(event.items())) for event in events), key=_order):
        if kind == "introduced" and said == "0":  # before all there is, also before 0a1
            inside = True
            continue
        at = _place(str(said))
        if kind == "introduced" and at <= version:
            inside = True
        elif (kind == "fixed" and at <= version) or (kind == "last_affected" and at < version):
            inside = False
    return inside


def _order(event: tuple[str, Any]) -> tuple[bool, Version, bool]:
    kind, said = event
    return said != "0", _place(str(said)), kind == "introduced"


def _place(said: str) -> Version:
    try:
        return Version(said)
    except InvalidVersion as error:
        raise ValueError(str(error)) from None


def main(folder: str, lists: Sequence[str]) -> int:
    """0: none is known."""
    try:
        return _told(list(entries(Path(folder))), folder, lists)
    except ValueError as error:
        print(f"{folder}: {error}", file=sys.stderr)
        return 2


def _told(known: Sequence[Entry], folder: str, lists: Sequence[str]) -> int:
    if not known:
        print(f"{folder} has no advisories (OSV, *.yaml or *.json)", file=sys.stderr)
        return 2
    pins = [pinned(Path(each).read_text()) for each in lists]
    holes = {f"{which}: {entry['id']}" for entry in known for each in pins for which in concerns(entry, each)}
    for hole in sorted(holes):
        print(hole)
    newest = max(str(entry.get("modified", "")) for entry in known)
    libraries = len(set().union(*pins))
    print(f"{len(holes)} known holes of {libraries} libraries; {len(known)} advisories, the newest of {newest[:10]}")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
