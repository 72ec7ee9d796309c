"""Partitions may only grow, whichever entry they come from."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.app.live.live import LiveSettings
from broker.app.live.live_users import LiveUsers
from broker.app.live.shrinking import Partitions
from broker.config.settings import EngineSettings, Settings
from broker.core.errors import ConfigError
from broker.engine.address.address_settings import Matcher
from tests.unit.app.used import Used


async def heeded() -> None:
    """Nobody has to be told."""


@pytest.fixture
def used() -> Used:
    return Used()


@pytest.fixture
def live(tmp_path: Path, used: Used) -> LiveSettings:
    return settings_of(tmp_path, used, {})


def settings_of(folder: Path, used: Used, addresses: dict[str, dict[str, Any]]) -> LiveSettings:
    made = LiveSettings(Settings(data=str(folder), engine=EngineSettings(addresses=addresses)))
    made.use(used.apply, LiveUsers(str(folder / "users.toml"), heeded, frozenset({"admin"})))
    return made


@pytest.mark.parametrize(
    ("file", "entry", "fewer", "allowed"),
    [
        ({"pt.#": {"partitions": 4}}, "pt.c", 1, 4),
        ({"pt.#": {"partitions": 4}}, "pt.*", 2, 5),
        ({}, "pt.c", 0, 1),
    ],
)
async def test_an_address_keeps_its_partitions_whichever_entry_they_come_from(
    tmp_path, used, file, entry, fewer, allowed
):
    live = settings_of(tmp_path, used, file)
    with pytest.raises(ConfigError, match="partitions"):
        await live.change("addresses", entry, {"partitions": fewer}, "ada")
    assert not used.engines
    await live.change("addresses", entry, {"partitions": allowed}, "ada")


async def test_an_entry_with_as_many_partitions_as_its_pattern_can_be_taken_back(tmp_path, used):
    live = settings_of(tmp_path, used, {"pt.#": {"partitions": 4}})
    await live.change("addresses", "pt.x", {"partitions": 4}, "ada")
    await live.forget("addresses", "pt.x")
    await live.change("addresses", "pt.x", {"partitions": 5}, "ada")
    with pytest.raises(ConfigError, match=r"pt\.x has 5 partitions, 4 are fewer"):
        await live.forget("addresses", "pt.x")


def test_partitions_are_found_as_the_engine_finds_them():
    random = Random(7)
    words = ["a", "b", "*", "#", "$x"]
    for _ in range(300):
        names = {".".join(random.choices(words, k=random.randint(1, 3))) for _ in range(6)}
        names |= {f"$host/s.{name}" for name in random.sample(sorted(names), 2)}
        table = {name: {"partitions": random.randint(1, 5)} for name in names if "#" not in name.split(".")[:-1]}
        engine = EngineSettings(addresses=table)
        found, match = Partitions(engine), Matcher(engine)
        for name in [*table, "a.b", "b", "$x.a", "a.b.a", "$host/s.a.b", "$host/t.a"]:
            if name in match._exact or not match.is_pattern(name):
                assert found.of(name) == match(name).partitions, (name, table)
