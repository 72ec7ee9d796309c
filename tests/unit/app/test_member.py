"""Addresses at which a process of a cluster tells others that it is reached."""

from __future__ import annotations

import socket

import pytest

from broker.app.member import advertised, advertised_admin
from broker.config.load import from_tree
from broker.config.settings import Settings


def settings(**values: object) -> Settings:
    return from_tree({name.replace("__", "."): value for name, value in values.items()}, "here")


@pytest.mark.parametrize(
    ("host", "told"), [("10.0.0.1", "10.0.0.1:7"), ("fd00::1", "[fd00::1]:7"), ("[fd00::1]", "[fd00::1]:7")]
)
def test_an_address_of_ipv6_stands_in_brackets(host: str, told: str) -> None:
    assert advertised(settings(cluster__host=host), 7) == told
    assert advertised_admin(settings(admin__host=host, admin__port=7)) == told


def test_a_port_that_listens_everywhere_is_told_by_a_name_that_others_know() -> None:
    everywhere = {"admin__host": "::", "admin__port": 7}
    assert advertised_admin(settings(**everywhere)) == f"{socket.gethostname()}:7"
    assert advertised_admin(settings(**everywhere, cluster__advertise="[fd00::1]:5")) == "[fd00::1]:7"
    assert advertised_admin(settings(admin__port=-1)) == ""
