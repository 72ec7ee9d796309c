"""Config files among the examples are ones that a broker starts with."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.load import load

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.toml")), ids=lambda file: file.stem)
def test_it_can_be_read(file: Path):
    assert load(str(file), {}, {}).edge.tls_port == 61612


def test_the_places_lead_to_each_other():
    east, west = (load(str(EXAMPLES / "two-places" / f"{name}.toml"), {}, {}).bridges for name in ("east", "west"))
    assert "west.example.com" in east["news-west"]["url"] and "east.example.com" in west["news-east"]["url"]
    assert all(bridge.get("max_hops", 1) == 1 for bridge in (east["news-west"], west["news-east"]))
