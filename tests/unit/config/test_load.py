"""Where settings come from, which source wins, and that nothing wrong passes in silence."""

from __future__ import annotations

import pytest

from broker.config.load import load
from broker.config.settings import MIB, Settings
from broker.core.errors import ConfigError


def write(tmp_path, text, name="stampede.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def refused(config_file=None, env=None, **overrides):
    with pytest.raises(ConfigError) as caught:
        load(config_file, env or {}, {name.replace("__", "."): value for name, value in overrides.items()})
    return str(caught.value)


def test_nothing_said_gives_the_defaults():
    assert load(None, {}, {}) == Settings()


def test_flags_win_over_variables_over_the_file(tmp_path):
    path = write(
        tmp_path,
        "[edge]\nport = 1001\nws_port = 1002\nmax_headers_is_not_here = 1\n".replace(
            "max_headers_is_not_here = 1\n", "tls_reload_s = 7\n"
        ),
    )
    settings = load(path, {"STAMPEDE_EDGE__PORT": "2001", "STAMPEDE_EDGE__WS_PORT": "2002"}, {"edge.port": "3001"})
    assert (settings.edge.port, settings.edge.ws_port, settings.edge.tls_reload_s) == (3001, 2002, 7.0)


def test_yaml_says_the_same_as_toml(tmp_path):
    toml = write(
        tmp_path, 'data = "/d"\n[wire]\nmax_frame_bytes = "2MiB"\n[engine.addresses."a.#"]\nauto_create = false\n'
    )
    yaml = write(
        tmp_path,
        "data: /d\nwire: {max_frame_bytes: 2MiB}\nengine:\n  addresses:\n    a.#: {auto_create: no}\n",
        "s.yaml",
    )
    assert load(toml, {}, {}) == load(yaml, {}, {})
    assert load(toml, {}, {}).wire.max_frame_bytes == 2 * MIB


def test_an_empty_file_or_table_is_fine(tmp_path):
    assert load(write(tmp_path, "", "s.yaml"), {}, {}) == Settings()
    assert load(write(tmp_path, "edge:\n", "t.yml"), {}, {}) == Settings()
    assert load(write(tmp_path, "[edge]\n"), {}, {}) == Settings()


def test_unknown_names_are_refused_with_the_place_and_a_guess(tmp_path):
    path = write(tmp_path, "[edge]\nprot = 1\n")
    text = refused(path)
    assert "edge.prot" in text and path in text and "Did you mean edge.port" in text
    text = refused(env={"STAMPEDE_EDGE__PROT": "1"})
    assert "variable STAMPEDE_EDGE__PROT" in text and "edge.port" in text
    assert "edge.port or admin.port" in refused(port="1")
    assert "max_connections" in refused(edge__maxconnections="1")
    assert "Unknown setting nonsense" in refused(nonsense="1")


def test_a_value_where_a_table_belongs_and_the_reverse(tmp_path):
    assert "edge (on the command line) is a table" in refused(edge="1")
    assert "edge" in refused(write(tmp_path, "edge = 3\n"))
    assert "edge.port" in refused(write(tmp_path, "[edge.port]\nx = 1\n"))


def test_address_tables_hold_only_what_was_said(tmp_path):
    path = write(
        tmp_path,
        '[engine.addresses."orders.#"]\nmax_delivery_attempts = 3\n[engine.addresses.plain]\nauto_delete = false\n',
    )
    overrides = {"engine.addresses.orders.#.redelivery_delay_ms": "5", 'engine.addresses."a.b".auto_create': "no"}
    assert load(path, {}, overrides).engine.addresses == {
        "orders.#": {"max_delivery_attempts": 3, "redelivery_delay_ms": 5},
        "plain": {"auto_delete": False},
        "a.b": {"auto_create": False},
    }


def test_address_tables_are_strict_too(tmp_path):
    text = refused(write(tmp_path, '[engine.addresses."o.#"]\nmax_delivery_atempts = 3\n'))
    assert "max_delivery_atempts" in text and "Did you mean max_delivery_attempts" in text
    text = refused(write(tmp_path, '[engine.addresses."o.#"]\nauto_create = 3\n'))
    assert "auto_create" in text and "o.#" in text
    assert "engine.addresses" in refused(engine__addresses="1")


@pytest.mark.parametrize("pattern", ["orders*", "#.orders", "a.#b", "a..b", ""])
def test_patterns_that_would_never_match_are_refused(pattern):
    assert "engine.addresses" in refused(**{f"engine.addresses.{pattern}.auto_create": "no"})


def test_what_kubernetes_and_the_client_put_into_the_environment_is_ignored():
    env = {
        "STAMPEDE_PORT": "tcp://10.0.0.1:61613", "STAMPEDE_SERVICE_HOST": "10.0.0.1",
        "STAMPEDE_SERVICE_PORT_STOMP": "1",
        "STAMPEDE_EDGE_PORT_61613_TCP_ADDR": "10.0.0.1", "STAMPEDE_URL": "x", "STAMPEDE_CONFIG": "x", "PATH": "/bin",
    }  # fmt: skip
    assert load(None, env, {}) == Settings()
    assert "STAMPEDE_EDGE_PROT" in refused(env={"STAMPEDE_EDGE_PROT": "1"})


def test_files_that_cannot_be_read_or_parsed(tmp_path):
    assert "no.toml" in refused("no.toml")
    assert "stampede.toml" in refused(write(tmp_path, "[edge\n"))
    assert "a.yaml" in refused(write(tmp_path, "a: [\n", "a.yaml"))
    assert "must hold tables" in refused(write(tmp_path, "- 1\n", "l.yaml"))
    assert "twice" in refused(write(tmp_path, "edge:\n  port: 1\n  port: 2\n", "d.yaml"))
