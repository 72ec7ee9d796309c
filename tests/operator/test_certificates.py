"""Secrets with certificates: there, readable, and how long they last."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from broker_operator.spec.model import AcceptorSpec, BrokerSpec, Etcd, Resource
from broker_operator.spec.names import ACCEPTOR, BROKER
from broker_operator.workloads.certificates import Certificates

from broker.core.certificates import first_certificate, not_after
from tests.harness.secrets import self_signed

from .builders import resource

TLS = AcceptorSpec(listeners=[{"name": "stomps", "port": 61612, "tls": {"secretName": "s"}}])


class Secrets:
    """An API server with Secrets, and a clock."""

    def __init__(self, **data: dict[str, str]) -> None:
        self.data, self.at = data, 0.0

    async def get(self, _: str, __: str, ___: str, name: str) -> dict[str, Any] | None:
        if name not in self.data:
            return None
        return {"data": {key: b64encode(text.encode()).decode() for key, text in self.data[name].items()}}

    def wall_ms(self) -> int:
        return int(self.at * 1000)


def of(server: Secrets) -> Certificates:
    return Certificates(server, server)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "reason"),
    [({}, "Missing"), ({"s": {"tls.crt": "x"}}, "Missing"), ({"s": {"tls.crt": "x", "tls.key": "y"}}, "Unreadable")],
)
async def test_what_is_wrong_with_a_secret(data, reason):
    found, ends = await of(Secrets(**data)).of_acceptor(resource(ACCEPTOR), TLS)
    assert (found.status, found.reason, ends) == (False, reason, None) and "s" in found.message


async def test_a_week_ahead_it_is_said_that_one_ends(tmp_path):
    certificate, _ = self_signed(tmp_path, days=100)
    server = Secrets(s={"tls.crt": certificate.read_text(), "tls.key": "y"})
    looks, one = of(server), resource(ACCEPTOR)
    end = not_after(first_certificate(certificate.read_text()))
    for before, reason in ((8, "Valid"), (6, "ExpiresSoon"), (-1, "Expired")):
        server.at = end - before * 86400
        assert (await looks.of_acceptor(one, TLS))[0].reason == reason
    assert looks.expiries == {one.id: end}
    assert (await looks.of_acceptor(one, AcceptorSpec(listeners=[])))[0].reason == "NoTLS" and not looks.expiries


async def test_the_secret_that_pods_wait_for_is_named_with_its_field():
    one: Resource = resource(BROKER)
    assert "spec.tls.secretName" in await of(Secrets()).missing(one, BrokerSpec(etcd=Etcd(endpoints=["etcd:2379"])))
    there = Secrets(**{f"{one.id.name}-components": {}})
    assert await of(there).missing(one, BrokerSpec(etcd=Etcd(endpoints=["etcd:2379"]))) == ""
