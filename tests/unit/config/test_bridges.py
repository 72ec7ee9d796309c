"""Bridges that cannot be meant."""

from __future__ import annotations

import pytest

from broker.config.load import load
from broker.core.errors import ConfigError

GOOD = {"url": "stomp://eu:61613", "source": "/queue/orders"}


def loaded(**values: str):
    return load(None, {}, {f"bridges.eu.{name}": value for name, value in {**GOOD, **values}.items()})


def test_a_bridge_is_a_table_of_its_own():
    assert loaded(window="7").bridges == {"eu": {**GOOD, "window": 7}}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"url": "stomp://ada:secret@eu:1"}, "passcode_file"),
        ({"url": "amqp://eu"}, "schemes are"), ({"url": ""}, "url"),
        ({"source": ""}, "source is empty"), ({"direction": "both"}, "out, in"), ({"broker": "ibm"}, "rabbitmq"),
        ({"login": "ada"}, "belong together"), ({"url": "stomp+ssl://eu", "cert_file": "c"}, "belong together"),
        ({"ca_file": "ca.pem"}, "no TLS"), ({"retry_min_s": "9", "retry_max_s": "3"}, "raise it"),
        ({"source": "/queue/a.*"}, "wildcard"), ({"target": "$host/shop.a"}, "virtual_host"),
        ({"virtual_host": "shop"}, "edge.virtual_hosts.shop"),
        ({"direction": "in", "broker": "rabbitmq", "filter": "a = 1"}, "no selectors"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_the_fix(values: dict[str, str], told: str):
    with pytest.raises(ConfigError, match=told) as error:
        loaded(**values)
    assert "secret" not in str(error.value)


def test_its_name_is_a_plain_one():
    with pytest.raises(ConfigError, match="name of a bridge"):
        load(None, {}, {f'bridges."e u".{name}': value for name, value in GOOD.items()})
