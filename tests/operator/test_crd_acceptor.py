"""What a StompAcceptor may not say is refused by name, with where it is said instead."""

from __future__ import annotations

import pytest
from broker_operator.crds import crd_acceptor, crd_broker

from .builders import rules_of


@pytest.mark.parametrize("name", ["permissionsRequired", "clientIds", "audit"])
def test_what_decides_whose_something_is_the_broker_says(name):
    edge = crd_acceptor.spec()["properties"]["settings"]["properties"]["edge"]
    (rule,) = [one for one in rules_of(edge) if one["rule"] == f"!has(self.{name})"]
    assert f"set spec.{name} of the StompBroker" in rule["message"]
    assert name in crd_broker.spec()["properties"]


def test_a_listener_has_no_field_that_opens_it_to_everybody():
    listener = crd_acceptor.spec()["properties"]["listeners"]["items"]["properties"]
    for name in ("defaultUser", "implicitConnect", "loginBy", "certificateUser", "clientIds"):
        assert name not in listener
    assert "connectionTtlMs" in listener
