"""From what a person wrote to a typed value: exactly what was meant, or a refusal that names the setting."""

from __future__ import annotations

import pytest

from broker.config.catalogue import leaves
from broker.config.load import load
from broker.config.settings import KIB
from broker.config.values import coerce, expected
from broker.core.errors import ConfigError


def write(tmp_path, text, name="stampede.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def refused(config_file=None, env=None, **overrides):
    with pytest.raises(ConfigError) as caught:
        load(config_file, env or {}, {name.replace("__", "."): value for name, value in overrides.items()})
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("edge.port", "x"), ("edge.port", "65536"), ("edge.port", "-2"), ("edge.port", "1.5"), ("edge.port", ""),
        ("edge.max_connections", "0"), ("edge.max_connections", "10KiB"), ("edge.server_header", "maybe"),
        ("edge.login_timeout_s", "0"), ("edge.login_timeout_s", "10s"), ("edge.login_timeout_s", "nan"),
        ("edge.heartbeat_tolerance", "0.5"), ("journal.compact_below", "1.5"), ("journal.segment_bytes", "1"),
        ("wire.max_frame_bytes", "64 apples"), ("wire.max_frame_bytes", "64i"), ("log.level", "LOUD"),
        ("engine.address.default_routing", "BOTH"), ("edge.default_heartbeat", "10s"), ("data", ""),
    ],
)  # fmt: skip
def test_values_out_of_type_unit_or_range_are_refused_by_name(name, value):
    text = refused(**{name.replace(".", "__"): value})
    assert name in text


@pytest.mark.parametrize(
    "toml", ["port = true", 'port = "61613x"', "port = 1.0", "host = 5", "server_header = 1", "port = [1]"]
)
def test_wrong_types_in_a_file_are_refused(tmp_path, toml):
    text = refused(write(tmp_path, f"[edge]\n{toml}\n"))
    assert "edge." + toml.split()[0] in text and "must be" in text


@pytest.mark.parametrize(
    ("text", "value"),
    [("65536", 65536), ("64KiB", 64 * KIB), ("64 kib", 64 * KIB), ("64Ki", 64 * KIB), ("64kB", 64000),
     ("1.5M", 1500000), ("1_000_000", 1000000), ("2b", 2)],
)  # fmt: skip
def test_sizes(text, value):
    assert load(None, {}, {"wire.large_body_bytes": text}).wire.large_body_bytes == value


def test_counts_may_be_short_and_words_in_any_case():
    settings = load(None, {"STAMPEDE_LOG__LEVEL": "debug"}, {"edge.max_connections": "10k", "journal.sync": "No"})
    assert settings.edge.max_connections == 10_000
    assert settings.log.level == "DEBUG"
    assert settings.journal.sync is False


def test_a_part_of_a_byte_or_of_a_thing_is_none():
    """1.5 KiB are whole bytes, 1.5 bytes are not; a size is meant for bytes alone."""
    assert coerce(leaves()["wire.large_body_bytes"], "1.5KiB", "here") == 1536
    for raw in ("1.5", "1.0001k", "10i", "10ib"):
        with pytest.raises(ConfigError, match=r"wire\.large_body_bytes \(here\) is '.*a whole number of bytes"):
            coerce(leaves()["wire.large_body_bytes"], raw, "here")


def test_a_refusal_says_what_is_legal():
    said = {name: expected(leaves()[name]) for name in ("edge.port", "journal.compact_below", "edge.server_header")}
    assert said == {
        "edge.port": "a whole number, at least -1, at most 65535",
        "journal.compact_below": "a number, at least 0, at most 1",
        "edge.server_header": "yes or no",
    }
    assert expected(leaves()["log.level"]).startswith("one of ")
    assert "milliseconds" in expected(leaves()["edge.default_heartbeat"])
    assert expected(leaves()["data"]) == "a text"


def test_a_text_has_no_nul_and_a_truth_is_no_number():
    for name, raw in (("data", "a\0b"), ("data", 5), ("edge.server_header", 1), ("edge.login_timeout_s", True)):
        with pytest.raises(ConfigError, match=name):
            coerce(leaves()[name], raw, "here")
