"""What Artifact Hub shows of the chart: the annotations of helm/stampede/Chart.yaml (`make catalog`).

    .venv/bin/python -m deploy.catalog.artifacthub

Rule: made of the chart's values, the kinds and their samples; only what stands above the mark is written by hand.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

from .kinds import ROOT, about, chart, definitions, examples, served, titled

FILE = ROOT / "helm" / "stampede" / "Chart.yaml"
MARK = "  # Made by `make catalog`: images of the default values, kinds, a sample of each. Do not edit below.\n"


def annotations() -> dict[str, str]:
    return {
        "artifacthub.io/images": _text(images()),
        "artifacthub.io/crds": _text(crds()),
        "artifacthub.io/crdsExamples": _text(examples()),
    }


def images() -> list[dict[str, str]]:
    """All that some values of the chart pull."""
    values = yaml.safe_load((FILE.parent / "values.yaml").read_text())
    named = {
        "stampede": values["image"],
        "etcd": values["etcd"]["bundled"]["image"],
        "redis": values["redis"]["bundled"]["image"],
        "stampede-pipeline": values["archive"]["image"],
    }
    release = chart()["appVersion"]
    return [{"name": name, "image": f"{one['repository']}:{one['tag'] or release}"} for name, one in named.items()]


def crds() -> list[dict[str, str]]:
    found = []
    for one in definitions():
        kind = one["spec"]["names"]["kind"]
        found.append(
            {
                "kind": kind,
                "version": served(one)["name"],
                "name": one["metadata"]["name"],
                "displayName": titled(kind),
                "description": about(one),
            }
        )
    return found


def renewed(text: str) -> str:
    """Chart.yaml with its made part as it should be."""
    by_hand = text.partition(MARK)[0]
    body = yaml.dump(annotations(), Dumper=_Readable, sort_keys=False, width=1000, allow_unicode=True)
    return by_hand + MARK + "".join(f"  {line}\n" if line else "\n" for line in body.splitlines())


class _Readable(yaml.SafeDumper):
    """Texts of several lines as they are."""


def _line_by_line(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _line_by_line)


def _text(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000, allow_unicode=True)


def main() -> None:
    before = FILE.read_text()
    FILE.write_text(renewed(before))
    print("Chart.yaml is renewed." if FILE.read_text() != before else "Chart.yaml is current.", file=sys.stderr)


if __name__ == "__main__":
    main()
