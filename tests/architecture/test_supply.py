"""What goes into the image is named to the file: versions and hashes say the same, and nothing else is installed."""

from __future__ import annotations

import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy/image"


def hashed(name: str) -> dict[str, list[str]]:
    """name==version → hashes."""
    found: dict[str, list[str]] = {}
    for line in (IMAGE / name).read_text().splitlines():
        if match := re.fullmatch(r"([a-z0-9.-]+==\S+) \\", line):
            found[match[1]] = last = []
        elif match := re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})(?: \\)?", line):
            last.append(match[1])
        else:
            assert line.startswith("#"), line
    return found


@pytest.mark.parametrize("name", ["libraries.txt", "pipeline.txt", "build.txt"])
def test_every_library_has_its_hashes(name: str) -> None:
    found = hashed(name)
    assert found and all(found.values())


def test_both_lists_of_the_image_say_the_same() -> None:
    lines = (IMAGE / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == list(hashed("libraries.txt"))


def test_both_images_have_the_same_libraries_where_both_have_them() -> None:
    broker, pipeline = (dict(each.split("==") for each in hashed(name)) for name in ("libraries.txt", "pipeline.txt"))
    assert (
        "pyspark" in pipeline and {name for name in broker if pipeline.get(name, broker[name]) != broker[name]} == set()
    )


@pytest.mark.parametrize("file", ["Dockerfile", "pipeline/Dockerfile"])
def test_the_image_takes_nothing_without_a_hash(file: str) -> None:
    text = (ROOT / file).read_text()
    installs = re.findall(r"pip (?:--python \S+ )?(?:install|wheel) [^\\\n]*", text)
    assert installs
    for install in installs:
        assert "--require-hashes" in install or "--no-deps" in install, install
        # What comes as sources (etcd3) is built by what build.txt names, not by whatever pip fetches for that.
        assert "--no-build-isolation" in install or "--only-binary :all:" in install or "--no-index" in install, install
    assert any(line.startswith("setuptools==") for line in hashed("build.txt"))


def test_both_images_begin_with_one_base_by_its_digest() -> None:
    texts = [(ROOT / file).read_text() for file in ("Dockerfile", "pipeline/Dockerfile")]
    (base,) = {each for text in texts for each in re.findall(r"^ARG BASE=(\S+)", text, re.MULTILINE)}
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base)
    assert all(set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"} for text in texts)


def loaded(script: str) -> Any:
    """A script of the image's folder, as a module."""
    spec = importlib.util.spec_from_file_location(script, IMAGE / f"{script}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Answer(io.BytesIO):
    """As urlopen gives it."""


@pytest.mark.parametrize(
    ("said", "told"), [('{"vulnerabilities": []}', True), ("{}", False), ("", False), (None, False)]
)
def test_whether_anybody_tells_of_known_holes_is_one_question(monkeypatch, said: str | None, told: bool) -> None:
    holes = loaded("holes")
    asked: list[str] = []

    def urlopen(url: str, timeout: float) -> Answer:
        asked.append(url)
        if said is None:
            raise OSError("no network")
        return Answer(said.encode())

    monkeypatch.setattr(holes, "urlopen", urlopen)
    assert holes.told("# a comment\nb==2.0 \\\n    --hash=sha256:0\n") is told
    assert asked == ["https://pypi.org/pypi/b/2.0/json"] and not holes.told("# nothing")


HOLE = """
id: PYSEC-{number}
modified: "2026-0{number}-01T00:00:00Z"
{more}affected:
- package: {{name: {name}, ecosystem: PyPI}}
  ranges:
  - {{type: GIT, events: [{{introduced: "0"}}]}}
  - {{type: ECOSYSTEM, events: [{events}]}}
  versions: [{versions}]
"""


@pytest.mark.parametrize(
    ("name", "events", "versions", "more", "holes"),
    [
        ("b-c", '{introduced: "0"}, {fixed: "2.1"}', "", "", 1),
        ("B_C", '{introduced: "0"}, {fixed: "2.0"}', "", "", 0),
        ("b-c", '{introduced: "2.1"}', "", "", 0), ("b-c", '{introduced: "1"}, {last_affected: "2.0"}', "", "", 1),
        ("b-c", '{introduced: "1"}, {last_affected: "1.9"}', "", "", 0), ("b-c", "", '"2.0"', "", 1),
        ("b-c", '{fixed: "1.5"}, {introduced: "0"}, {introduced: "1.10"}, {fixed: "3"}', "", "", 1),
        ("b-c", '{introduced: "1"}, {fixed: "2.0"}, {introduced: "2.0"}', "", "", 1),
        ("b-c", '{introduced: "2.0"}, {fixed: "2.0"}, {introduced: "1"}', "", "", 1),
        ("b-c", '{introduced: "1"}, {fixed: "1.5"}, {introduced: "1.5"}, {fixed: "2.0"}', "", "", 0),
        ("other", '{introduced: "0"}', "", "", 0), ("b-c", '{introduced: "0"}', "", "withdrawn: 2026-01-01\n", 0),
    ],
)  # fmt: skip
def test_known_holes_are_told_by_files_where_no_index_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, events: str, versions: str, more: str, holes: int
) -> None:
    advisories = loaded("advisories")
    (tmp_path / "vulns").mkdir()
    entry = HOLE.format(number=1, name=name, events=events, versions=versions, more=more)
    (tmp_path / "vulns" / "one.yaml").write_text(entry)
    (tmp_path / "vulns" / "two.json").write_text('{"id": "X", "modified": "2026-02-02", "affected": []}')
    (tmp_path / "README.md").write_text("no entry")
    pins = tmp_path / "libraries.txt"
    pins.write_text("# a comment\nb_c==2.0 \\\n    --hash=sha256:0\n")
    assert advisories.main(str(tmp_path), [str(pins)]) == holes
    said = capsys.readouterr().out
    assert ("b-c==2.0: PYSEC-1" in said) is bool(holes) and "the newest of 2026-02-02" in said


def test_a_hole_that_was_always_there_is_in_the_first_preview_too() -> None:
    package = {"name": "b", "ecosystem": "PyPI"}
    events = [{"fixed": "1"}, {"introduced": "0"}]
    entry = {"affected": [{"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}]}
    concerns = loaded("advisories").concerns
    assert list(concerns(entry, {"b": "0.dev1"})) == ["b==0.dev1"] and not list(concerns(entry, {"b": "1"}))


def test_a_folder_without_advisories_is_no_all_clear(tmp_path: Path) -> None:
    assert loaded("advisories").main(str(tmp_path), [str(IMAGE / "libraries.txt")]) == 2


@pytest.mark.parametrize("file", ["Dockerfile", "pipeline/Dockerfile"])
def test_what_builds_the_wheel_is_in_the_image_that_builds_it(file: str) -> None:
    """hatchling looks for the script of a hook also where it does nothing."""
    assert "hooks.custom]" in (ROOT / "pyproject.toml").read_text()
    copied = re.findall(r"^COPY (?!--from)(.*) \./\S*$", (ROOT / file).read_text(), re.MULTILINE)
    sources = {name for line in copied for name in line.split()}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= sources
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert [name for name in sources if f"!{name}" not in allowed and name != "pipeline"] == []
