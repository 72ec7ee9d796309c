"""The chart's values are held to the schemas of our kinds."""

from __future__ import annotations

from pathlib import Path

from broker_operator.crds import helm_values

ROOT = Path(__file__).resolve().parents[2]


def test_values_of_the_chart_are_held_to_the_same_schemas():
    text = (ROOT / helm_values.VALUES).read_text()
    assert helm_values.with_specs(text) == text, "run `make crds`"
