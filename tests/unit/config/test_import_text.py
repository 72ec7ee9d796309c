"""An imported file as a config file: what could not be carried over comes first, and the text loads."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from broker.config.artemis.import_text import WIDTH, as_toml
from broker.config.artemis.importing import Imported, Note, convert
from broker.config.load import from_tree, load

FOLDER = Path(__file__).parent / "broker_xml"


@pytest.mark.parametrize("name", ["stock", "everything"])
def test_the_result_loads_and_has_nothing_to_mend(tmp_path, name):
    found = convert((FOLDER / f"{name}.xml").read_bytes())
    file = tmp_path / "stampede.toml"
    file.write_text(as_toml(found, f"{name}.xml"))
    settings = load(str(file), {}, {})
    assert "to be mended" not in file.read_text()
    assert settings.engine.addresses == found.tables["engine.addresses"]
    assert settings.engine.queues == found.tables["engine.queues"]
    assert settings.acceptors == found.tables["acceptors"]


def test_what_was_not_carried_over_stands_first_and_each_setting_in_its_table():
    found = Imported(
        {"edge.port": 7, "data": "/d", "edge.host": "h"},
        {"engine.addresses": {'a"b': {"ring_size": 3}}},
        [Note(12, "journal-type", "there is  one kind\nof journal " + "x" * 200), Note(0, "cluster", "no clusters")],
    )
    lines = as_toml(found, "broker.xml").splitlines()
    assert lines[0] == "# Imported from broker.xml. See docs/importing.md."
    assert lines[1].startswith("# not carried over: journal-type (line 12): there is one kind of journal")
    assert all(line.startswith("#") and len(line) <= WIDTH for line in lines[: lines.index('data = "/d"')])
    assert "# not carried over: cluster: no clusters" in lines
    loaded = from_tree(tomllib.loads("\n".join(lines)), "x")
    assert (loaded.edge.port, loaded.edge.host, loaded.data) == (7, "h", "/d")
    assert loaded.engine.addresses == {'a"b': {"ring_size": 3}}
    assert lines.count("[edge]") == 1


def test_settings_that_contradict_each_other_are_said_on_top():
    lines = as_toml(Imported({"edge.port": 7, "edge.ws_port": 7}, {}, []), "x").splitlines()
    assert lines[1].startswith("# to be mended before use: ") and "edge.ws_port" in lines[1]
