"""A short chaos run, so that `make chaos` works when somebody needs it: two faults, all traffic, nothing broken."""

from __future__ import annotations

import pytest

from tests.harness.servers import needs_etcdctl

from .run import run

pytestmark = [pytest.mark.alone, pytest.mark.timeout(400)]


async def test_an_owner_and_an_edge_die(tmp_path):
    needs_etcdctl()
    verdict = await run(tmp_path, seed=1, rounds=2, only=["kill-owner", "kill-edge"])
    assert verdict.broken == [], verdict
    assert len(verdict.faults) >= 2 and verdict.messages > 500, verdict
