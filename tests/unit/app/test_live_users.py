"""Users that are changed while a broker runs: an administrator is always left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.app.live.live import LiveSettings
from broker.app.live.live_users import LiveUsers
from broker.config.settings import EngineSettings, Settings
from broker.core.errors import ConfigError
from tests.unit.app.used import Used

PASSCODE = "a long passcode"


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


async def test_an_administrator_is_always_left(live):
    people = live.people
    for groups in (None, [], ["eu"]):
        with pytest.raises(ConfigError, match=r"admin\.administrators \(admin\).* first add a user"):
            await people.set("ada", PASSCODE, groups)
    assert await people.all() == {}
    await people.set("ada", PASSCODE, ["eu", "admin"])
    await people.set("bob", PASSCODE, None)
    for groups in ([], ["eu"]):
        with pytest.raises(ConfigError, match=r"admin\.administrators"):
            await people.set("ada", None, groups)
    with pytest.raises(ConfigError, match=r"admin\.administrators"):
        await people.remove("ada")
    await people.set("ada", "another passcode", None)
    await people.set("bob", None, ["admin"])
    await people.set("ada", None, [])
    assert await people.all() == {"ada": (), "bob": ("admin",)}


async def test_no_user_is_made_where_none_of_them_could_use_the_api(tmp_path):
    people = LiveUsers(str(tmp_path / "users.toml"), heeded, frozenset())
    with pytest.raises(ConfigError, match=r"admin\.administrators is empty"):
        await people.set("ada", PASSCODE, ["admin"])
    assert not (tmp_path / "users.toml").exists()
