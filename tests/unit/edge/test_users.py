"""The users file: what is added can log in, what is broken is named, and hashes stay out of sight."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.errors import ConfigError
from broker.edge.access import users as users_module
from broker.edge.access.auth import NOBODY
from broker.edge.access.users import User, add_user, list_users, load_users, remove_user, save_users
from broker.seams.passcodes import hash_passcode, verify


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "folder" / "users.toml")


def test_added_users_are_listed_and_their_passcodes_verify(path: str) -> None:
    assert list_users(path) == []
    add_user(path, "zoë", "grün 🙂")
    add_user(path, "ada", "secret")
    assert list_users(path) == ["ada", "zoë"]
    loaded = load_users(path)
    assert verify(loaded["zoë"].hash, "grün 🙂")
    assert not verify(loaded["zoë"].hash, "grün")
    assert loaded["ada"].hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    remove_user(path, "zoë")
    assert list_users(path) == ["ada"]


def test_only_the_owner_can_read_the_file_and_nothing_else_is_left(path: str) -> None:
    add_user(path, "ada", "secret")
    os.chmod(path, 0o644)
    add_user(path, "bob", "secret")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(os.path.dirname(path)) == ["users.toml"]
    assert "secret" not in Path(path).read_text()


def test_a_new_passcode_keeps_the_groups(path: str) -> None:
    save_users(path, {"ada": User("ada", hash_passcode("old"), ("admins",))})
    add_user(path, "ada", "new")
    ada = load_users(path)["ada"]
    assert verify(ada.hash, "new")
    assert not verify(ada.hash, "old")
    assert ada.groups == ("admins",)


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "a.b", "[x]", "é", "🙂", "sp ace", "a=b#c"])
def test_names_and_groups_survive_the_file(path: str, name: str) -> None:
    save_users(path, {name: User(name, "$argon2id$x", (name, "de\x7fl", "\n"))})
    loaded = load_users(path)[name]
    assert (loaded.name, loaded.hash, loaded.groups) == (name, "$argon2id$x", (name, "de\x7fl", "\n"))


@pytest.mark.parametrize("name", ["", " ada", "ada ", "a\nb", "a\0b", "a" * 129])
def test_names_that_would_mislead_are_refused(path: str, name: str) -> None:
    with pytest.raises(ConfigError, match="printable"):
        add_user(path, name, "secret")
    assert not os.path.exists(path)


def test_an_empty_passcode_and_an_unknown_user_are_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="empty"):
        add_user(path, "ada", "")
    with pytest.raises(ConfigError, match="no user 'ada'"):
        remove_user(path, "ada")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("users = [", "not valid TOML"),
        ("x = 1", "tables only"),
        ("users = 1", "tables only"),
        ("[users]\nada = 1", "'ada' has no hash"),
        ("[users.ada]", "stampede user add ada"),
        ('[users.ada]\nhash = "topsecret"', "not argon2id"),
        ('[users.ada]\nhash = "$argon2id$x"\ngroups = "g"', "list of texts"),
        ('[users.ada]\nhash = "$argon2id$x"\nadmin = true', "unknown entry 'admin'"),
    ],
)
def test_a_broken_file_is_explained_without_showing_hashes(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as refused:
        load_users(str(path))
    assert "topsecret" not in str(refused.value)


def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_user(path, "ada", "secret")

    def full(self: object, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("broker.seams.files.OsFile.pwrite", full)
    with pytest.raises(ConfigError, match=r"Cannot write .*users\.toml: No space"):
        add_user(path, "bob", "secret")
    assert list_users(path) == ["ada"]
    assert os.listdir(os.path.dirname(path)) == ["users.toml"]


def test_a_user_never_shows_the_hash() -> None:
    assert "argon2" not in repr(User("ada", "$argon2id$secret", ("g",)))


ODD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(users=st.dictionaries(ODD, st.lists(ODD, max_size=3).map(tuple), max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_file_as_it_is_written_is_read_in_one_go_and_like_any_toml(users):
    text = "\n".join(users_module._table(User(name, NOBODY, groups)) for name, groups in users.items())
    whole = {name: tuple(table.get("groups", ())) for name, table in tomllib.loads(text).get("users", {}).items()}
    assert whole == users
    fast = users_module._as_written(text)
    assert fast is not None and {name: user.groups for name, user in fast.items()} == users
    assert all((user.name, user.hash) == (name, NOBODY) for name, user in fast.items())


@pytest.mark.parametrize(
    "text",
    ['[users."a"]\nhash = "x"\n', '[users.a]\nhash = "$argon2id$x"\n', '[users."a"]\nhash = "$argon2id$x"\nmore = 1\n',
     '# by hand\n[users."a"]\nhash = "$argon2id$x"\n',
     '[users."a"]\nhash = "$argon2id$x"\n\n[users."a"]\nhash = "$argon2id$y"\n',
     '[users."a"]\nhash = "$argon2id$x"\ngroups = ["b",]\n', '[users."\\uD800"]\nhash = "$argon2id$x"\n'],
)  # fmt: skip
def test_what_is_written_otherwise_is_read_as_toml(text):
    assert users_module._as_written(text) is None
