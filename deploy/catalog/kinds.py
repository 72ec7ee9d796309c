"""Our kinds as catalogues show them: their definitions, and an example of each from deploy/samples.

Rule: nothing is written down twice; what a catalogue says of a kind stands in its definition or in its sample.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
GROUP = "stampede.dev"
Table = dict[str, Any]


def definitions() -> list[Table]:
    return [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml"))]


def served(definition: Table) -> Table:
    """The version that is stored."""
    (found,) = [one for one in definition["spec"]["versions"] if one["storage"]]
    return dict(found)


def about(definition: Table) -> str:
    """What it is, in a sentence."""
    text: str = served(definition)["schema"]["openAPIV3Schema"]["description"]
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def titled(kind: str) -> str:
    """StompBroker → Stomp broker."""
    first, *rest = re.findall(r"[A-Z][a-z]*", kind)
    return " ".join([first, *(word.lower() for word in rest)])


def examples() -> list[Table]:
    """The first sample of each kind."""
    found: dict[str, Table] = {}
    for path in sorted((ROOT / "deploy" / "samples").glob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            if each and str(each.get("apiVersion", "")).startswith(f"{GROUP}/"):
                found.setdefault(each["kind"], each)
    return [found[one["spec"]["names"]["kind"]] for one in definitions()]


def chart() -> Table:
    found: Table = yaml.safe_load((ROOT / "helm" / "stampede" / "Chart.yaml").read_text())
    return found
