"""Which component a certificate is that of, by its names."""

from __future__ import annotations

import pytest

from broker.rpc.credentials import names_of
from broker.rpc.roles import Roles

ROLES = Roles("Stampede.internal.")


@pytest.mark.parametrize(
    ("service", "names", "fits"),
    [
        ("edge", ["edge.stampede.internal"], True), ("edge", ["x.org", "EDGE-0.edge.stampede.INTERNAL"], True),
        ("edge", ["owner.stampede.internal"], False), ("edge", [], False), ("edge", ["edge"], False),
        ("edge", ["myedge.stampede.internal"], False), ("edge", ["edge.stampede.internal.evil.org"], False),
        ("replica", ["owner.stampede.internal"], True), ("replica", ["edge.stampede.internal"], False),
    ],
)  # fmt: skip
def test_a_role_is_a_name(service: str, names: list[str], fits: bool) -> None:
    assert (ROLES.refusal(service, names) == "") is fits
    assert Roles("").refusal(service, names) == ""


def test_a_name_in_front_is_that_of_one_component() -> None:
    assert ROLES.named("edge", ["edge.stampede.internal"]) == frozenset()
    assert ROLES.named("edge", ["Edge-1.edge.stampede.internal", "b.owner.stampede.internal"]) == {"edge-1"}
    assert Roles("").named("edge", ["a.edge.x"]) == frozenset() and not Roles("")
    assert ROLES.target == "owner.stampede.internal"


def test_only_names_of_dns_are_names() -> None:
    """gRPC gives URIs and e-mail addresses in one list with them; a SPIFFE CA gives those to whoever may have a service
    account."""
    given = [b"spiffe://mesh/ns/dev/sa/x.owner.stampede.internal", b"bob@mail.edge.stampede.internal", b"10.0.0.7"]
    assert names_of({"x509_subject_alternative_name": given}) == ["10.0.0.7"]
    assert ROLES.refusal("replica", names_of({"x509_subject_alternative_name": given}))
    assert names_of({"x509_subject_alternative_name": [b"*.edge.x", b"a_b.edge.x."]}) == ["*.edge.x", "a_b.edge.x."]
