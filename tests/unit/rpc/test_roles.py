"""Which component a certificate is that of, by its names."""

from __future__ import annotations

import pytest

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
