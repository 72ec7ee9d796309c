"""What is printed about settings can be read back and is complete."""

from __future__ import annotations

from broker.config.catalogue import leaves
from broker.config.describe import as_toml, help_text, markdown, variable
from broker.config.load import load


def test_effective_settings_load_again(tmp_path):
    said = {
        "engine.addresses.orders.#.dead_letter_address": 'a"b\\c', "edge.ws_path": "/ü", "journal.sync": "no",
        "journal.segment_bytes": "100001", "edge.login_timeout_s": "2.5",
    }  # fmt: skip
    settings = load(None, {}, said)
    path = tmp_path / "again.toml"
    path.write_text(as_toml(settings))
    assert load(str(path), {}, {}) == settings


def test_every_setting_can_be_given_as_the_variable_it_is_said_to_have():
    for leaf in leaves().values():
        if leaf.kind is not dict and leaf.name != "edge.ws_path":
            load(None, {variable(leaf): str(leaf.default)}, {})


def test_defaults_are_within_their_own_bounds():
    for leaf in leaves().values():
        if leaf.least is not None:
            assert leaf.least <= leaf.default, leaf.name
        if leaf.most is not None:
            assert leaf.default <= leaf.most, leaf.name


def test_help_gives_unit_default_and_reason():
    text = help_text()
    assert 'journal.segment_bytes  (bytes, default "64MiB")' in text
    assert "Why: RabbitMQ's value." in text
    assert max(map(len, text.splitlines())) <= 100
    assert "| `edge.port` | TCP port | `61613` |" in markdown()
