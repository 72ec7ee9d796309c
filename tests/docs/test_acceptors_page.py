"""What docs/acceptors.md shows is so: the examples load, and the table of heart-beats is what clients get."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from broker.config.acceptor_url import read
from broker.config.load import load
from broker.config.ports import all_acceptors, edge_acceptors
from broker.config.settings import EdgeSettings
from broker.edge.session.heartbeat import negotiate

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "acceptors.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| ([\d,]+|none) \|$", PAGE, re.MULTILINE)


def test_the_example_loads(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "stampede.toml"
    file.write_text(example)
    settings = load(str(file), {}, {})
    assert set(tomllib.loads(example)["acceptors"]) == set(settings.acceptors) == {"public", "legacy"}
    assert all_acceptors(settings)["legacy"].connection_ttl_ms == 20_000


@pytest.mark.parametrize(("acceptor", "client", "connected", "ttl"), ROWS)
def test_the_table_of_heart_beats(acceptor, client, connected, ttl):
    if acceptor == "the ports of `[edge]`":
        settings = edge_acceptors(EdgeSettings())["tcp"]
    else:
        name = "" if acceptor == "defaults" else acceptor.strip("`")
        loaded = load(None, {}, {"acceptors.a.url": f"tcp://:7000?{name}"})
        assert read(f"tcp://:7000?{name}", "page").notes == []
        settings = all_acceptors(loaded)["a"]
    beat = negotiate(None if "1.0" in client else client.strip("`"), settings, EdgeSettings().heartbeat_min_ms)
    assert beat.reply == (None if connected == "none" else connected.strip("`"))
    assert beat.ttl_ms == (0 if ttl == "none" else int(ttl.replace(",", "")))


def test_all_rows_are_read():
    assert len(ROWS) == 13
