"""What we show people applies: every sample, every resource in the docs, and what the chart's values become.

Rule: strict, as `kubectl apply --validate=strict`: a field that the schema does not list is a mistake, not a comment.
The rules in CEL are checked by tests/operator/api/test_samples.py, where there is an API server."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker_operator.spec import names

from .strict import refusals

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "deploy" / "samples").glob("*.yaml"))
PAGES = [
    ROOT / "README.md",
    ROOT / "helm" / "stampede" / "templates" / "NOTES.txt",
    ROOT / "deploy" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def ours(text: str) -> list[dict[str, Any]]:
    found = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    return [each for each in found if str(each.get("apiVersion", "")).startswith(f"{names.GROUP}/")]


def snippets(page: Path) -> list[dict[str, Any]]:
    """Our resources in the yaml blocks of a page."""
    text = re.sub(r"\{\{.*?\}\}", "x", page.read_text())
    found = [block for _, block in re.findall(r"^( *)```ya?ml\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)]
    found += re.findall(r"<<'?END'?\n(.*?)^ *END$", text, flags=re.MULTILINE | re.DOTALL)
    return [each for block in found if "kind:" in block for each in ours(textwrap.dedent(block))]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_samples_apply(sample):
    for resource in ours(sample.read_text()):
        assert refusals(resource) == [], resource["metadata"]["name"]


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=lambda path: path.stem)
def test_what_the_docs_show_applies(page):
    for resource in snippets(page):
        assert refusals(resource) == [], resource["metadata"]["name"]


def test_the_check_can_fail():
    resource = {"kind": "Address", "spec": {"brokerRef": {"name": "x"}, "name": "a", "routingTypes": ["ANYCAST"]}}
    assert "routingTypes" in refusals(resource)[0]
