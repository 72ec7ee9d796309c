"""The map of a cluster as the API tells it, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from broker.admin.api.access import Who
from broker.admin.api.calls import Call
from broker.admin.api.cluster_map import ClusterMap
from broker.admin.api.openapi import document
from broker.admin.api.problems import Problem
from tests.harness.schemas import Checked
from tests.harness.topology import topology

__all__ = ["topology"]  # fixtures


async def test_what_the_api_makes_of_it(topology):
    ops = {op.name: op for op in ClusterMap(topology).routes()}
    checked = Checked(document(list(ops.values())))
    who = Who("ada", "", None, True)

    async def ask(name: str, path: dict[str, str], body: dict[str, Any]) -> Any:
        return await ops[name].handler(Call(who, path, {}, body))

    checked.answer("GET", "/nodes", 200, "application/json", await ask("nodes", {}, {}))
    checked.answer("GET", "/slots", 200, "application/json", await ask("slots", {}, {}))
    assert await ask("move-slot", {"slot": "0"}, {"to": "b"}) == {"slot": 0, "state": "handing over"}
    assert (await ask("drain-owner", {"owner": "a"}, {}))["done"]
    for name, path, body, problem in (
        ("drain-owner", {"owner": "z"}, {}, "not-now"), ("move-slot", {"slot": "256"}, {"to": "b"}, "bad-value"),
        ("move-slot", {"slot": "1"}, {"to": "b"}, "not-now"),
    ):  # fmt: skip
        with pytest.raises(Problem) as refused:
            await ask(name, path, body)
        assert refused.value.name == problem
    alone = {op.name: op for op in ClusterMap(None).routes()}
    with pytest.raises(Problem, match="standalone"):
        await alone["drain-owner"].handler(Call(who, {"owner": "a"}, {}, {}))
