"""Tokens of a cluster: known until they are revoked, and nobody's when they cannot be read."""

from __future__ import annotations

import pytest

from broker.core.errors import ConfigError
from tests.unit.app.live_edge import KEYS, running


async def test_a_token_is_known_until_it_is_revoked():
    async with running() as edge:
        secret = await edge.tokens.create("backup", ["ops"], "ada")
        assert edge.tokens.find(secret) == ("backup", ("ops",))
        assert secret not in str(edge.stored(KEYS.token("backup"))), "kept is a hash"
        assert edge.tokens.find("stampede_other") is None
        with pytest.raises(ConfigError, match="already"):
            await edge.tokens.create("backup", ["ops"], "bob")
        await edge.tokens.revoke("backup")
        assert edge.tokens.find(secret) is None
        with pytest.raises(KeyError):
            await edge.tokens.revoke("backup")


async def test_a_token_without_groups_or_that_nobody_can_read_is_nobodys():
    async with running() as edge:
        with pytest.raises(ConfigError, match="without groups"):
            await edge.tokens.create("backup", [], "ada")
        await edge.put(KEYS.token("odd"), {"groups": 5})
        assert edge.tokens.all() == {} and "stampede token revoke odd" in edge.config.bad[KEYS.token("odd")]
        await edge.tokens.revoke("odd")
        assert not edge.config.bad
