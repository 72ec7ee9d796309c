"""Tokens of machines: told once, kept as hashes, on the disk before they count and gone before it is told."""

from __future__ import annotations

import json
import os

import pytest

from broker.app.live import live_tokens
from broker.app.live.live_tokens import FILE, PREFIX, LiveTokens, fresh, hashed, refuse_groups
from broker.core.errors import ConfigError
from broker.seams.files import read_whole


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)


async def test_a_token_is_told_once_and_kept_as_its_hash(folder):
    tokens = LiveTokens(folder)
    secret = await tokens.create("backup", ["ops"], "ada")
    assert secret.startswith(PREFIX) and len(secret) >= len(PREFIX) + 32
    assert tokens.find(secret) == ("backup", ("ops",))
    for other in ("", secret[:-1], hashed(secret), "\udcff"):
        assert tokens.find(other) is None
    path = os.path.join(folder, FILE)
    text = read_whole(path).decode()
    assert secret not in text and os.stat(path).st_mode & 0o777 == 0o600
    kept = json.loads(text)["tokens"]["backup"]
    assert (kept["hash"], kept["by"], kept["groups"]) == (hashed(secret), "ada", ["ops"])
    assert await tokens.behind() == []


async def test_what_was_made_is_known_after_a_restart_and_what_was_revoked_is_not(folder):
    tokens = LiveTokens(folder)
    kept, gone = [await tokens.create(name, ["ops"], "ada") for name in ("a", "b")]
    await tokens.revoke("b")
    for each in (tokens, LiveTokens(folder)):
        assert each.find(kept) == ("a", ("ops",)) and each.find(gone) is None and list(each.all()) == ["a"]
    with pytest.raises(KeyError):
        await tokens.revoke("b")


async def test_a_name_is_taken_once_and_there_is_a_bound(folder, monkeypatch):
    tokens = LiveTokens(folder)
    secret = await tokens.create("a", ["ops"], "ada")
    with pytest.raises(ConfigError, match="token 'a' already; revoke it first"):
        await tokens.create("a", ["others"], "bob")
    monkeypatch.setattr(live_tokens, "MOST", 2)
    await tokens.create("b", ["ops"], "ada")
    with pytest.raises(ConfigError, match="2 tokens, which is the most"):
        await tokens.create("c", ["ops"], "ada")
    assert tokens.find(secret) == ("a", ("ops",)) and len(tokens.all()) == 2


async def test_what_is_not_on_the_disk_does_not_count(folder, monkeypatch):
    tokens = LiveTokens(folder)
    secret = await tokens.create("a", ["ops"], "ada")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(live_tokens, "replace_whole", fail)
    with pytest.raises(ConfigError, match=r"Cannot keep it in .*tokens\.json: No space left"):
        await tokens.create("b", ["ops"], "ada")
    with pytest.raises(ConfigError, match="No space left"):
        await tokens.revoke("a")
    assert list(tokens.all()) == ["a"] and tokens.find(secret) is not None


@pytest.mark.parametrize("text", ["", "{", '{"tokens": {"a": {}}}', '{"version": 1, "more": 2}'])
def test_a_file_that_cannot_be_read_stops_the_start_and_is_named(folder, text):
    with open(os.path.join(folder, FILE), "w") as file:
        file.write(text)
    with pytest.raises(ConfigError, match=r"tokens.json cannot be read: .* put it aside"):
        LiveTokens(folder)


def test_a_token_may_do_something_or_is_none():
    with pytest.raises(ConfigError, match="without groups may nothing"):
        refuse_groups([])
    assert refuse_groups(["ops"]) == ("ops",)
    assert fresh() != fresh()
