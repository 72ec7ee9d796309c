"""The statement of what was built: artifacts by hash, the commit, the lists; none for a tree that nobody else has."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def provenance() -> ModuleType:
    spec = importlib.util.spec_from_file_location("provenance", ROOT / "deploy/image/provenance.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path, provenance: ModuleType) -> Path:
    """A repository of one commit with the files that matter."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed: no commits for this test")
    tree = tmp_path / "tree"
    for name in provenance.MATERIALS:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True)
    return tree


def test_it_names_artifacts_and_what_they_were_made_of(tree, tmp_path, provenance):
    wheel = tmp_path / "stampede.whl"
    wheel.write_bytes(b"built")
    said = provenance.statement([wheel], tree)
    assert (said["_type"], said["predicateType"]) == (
        "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
    )  # fmt: skip
    assert said["subject"] == [{"name": wheel.name, "digest": {"sha256": hashlib.sha256(b"built").hexdigest()}}]
    build = said["predicate"]["buildDefinition"]
    commit = build["externalParameters"]["commit"]
    assert len(commit) == 40 and build["externalParameters"]["baseImages"]
    digests = {one["uri"]: one["digest"] for one in build["resolvedDependencies"]}
    assert digests[f"git+file:.@{commit}"] == {"gitCommit": commit}
    libraries = hashlib.sha256((ROOT / "deploy/image/libraries.txt").read_bytes()).hexdigest()
    assert digests["deploy/image/libraries.txt"] == {"sha256": libraries}


def test_a_tree_that_is_no_commit_has_none(tree, tmp_path, provenance):
    (tree / "Dockerfile").write_text("FROM somewhere\n")
    with pytest.raises(SystemExit, match="changes in no commit"):
        provenance.statement([tmp_path], tree)


def test_a_file_that_is_in_no_commit_is_a_change_too(tree, tmp_path, provenance):
    """It would be in the wheel."""
    (tree / "broker").mkdir()
    (tree / "broker/more.py").write_text("x = 1\n")
    with pytest.raises(SystemExit, match="changes in no commit"):
        provenance.statement([tmp_path], tree)


def test_wheels_of_other_commits_are_not_said_to_be_of_this_one():
    lines = (ROOT / "Makefile").read_text().partition("\nprovenance:")[2].splitlines()[1:4]
    assert [line.split()[0] for line in lines] == ["rm", "$(PIP)", "$(BIN)/python"] and "dist/*.whl" in lines[0]
