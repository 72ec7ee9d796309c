"""Users of a file: names, argon2id hashes, groups; and what holds for those whom others know.

    [users."ada"]
    hash = "$argon2id$v=19$m=19456,t=2,p=1$…"
    groups = ["admins"]

Rule: passcodes come in, hashes stay; neither is ever in an error text or a repr. A change replaces the whole file
at once (mode 0600), so that a broker which looks at it meanwhile sees the old one or the new one.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from broker.config.permissions import EVERYBODY
from broker.core.errors import ConfigError
from broker.seams.files import read_whole, replace_whole
from broker.seams.passcodes import hash_passcode

MAX_NAME = 128
"""Characters of a user name."""
MOST_GROUPS = 1000
"""Of one user whom others know: what a user may do is made of them at each login. As many as Active Directory answers
with at a time."""


class User:
    """One entry. `hash` is argon2's text form with its own parameters."""

    __slots__ = ("groups", "hash", "name", "previous")

    def __init__(self, name: str, hash: str, groups: tuple[str, ...] = (), previous: tuple[str, ...] = ()) -> None:
        """previous: hashes of passcodes from before that are still valid."""
        self.name = name
        self.hash = hash
        self.groups = groups
        self.previous = previous

    def __repr__(self) -> str:
        return f"User({self.name!r}, groups={self.groups!r})"


def load_users(path: str) -> dict[str, User]:
    """All users of the file. Raises ConfigError when it cannot be read or does not make sense."""
    try:
        text = read_whole(path).decode()
        known = _as_written(text)
        if known is not None:
            return known
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"Cannot read the users file {path}: {error.strerror}.") from error
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError; the text of the file is not repeated
        where = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not UTF-8"
        raise ConfigError(f"The users file {path} is not valid TOML: {where}.") from None
    users = tables.pop("users", {})
    if tables or not isinstance(users, Mapping):
        raise ConfigError(f"The users file {path} may hold [users.NAME] tables only.")
    return {name: _user(f"The users file {path}", name, table) for name, table in users.items()}


_STRING = r'"((?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt]|\\u(?!d[89a-f])[0-9a-f]{4})*)"'
_WRITTEN = re.compile(
    rf'\[users\.{_STRING}\]\nhash = "(\$argon2id\$[!#-\[\]-~]*)"\n(?:groups = \[({_STRING}(?:, {_STRING})*)\]\n)?\n?'
)


def _as_written(text: str) -> dict[str, User] | None:
    """Users of a file exactly as save_users() writes it, ten times as fast as TOML: there may be 100,000. None: it is
    written otherwise, or wrong."""
    found: dict[str, User] = {}
    at = 0
    for match in _WRITTEN.finditer(text):
        if match.start() != at:
            return None
        at = match.end()
        name, hash, groups = match[1], match[2], match[3]
        if "\\" in name:
            name = json.loads(f'"{name}"')
        if name in found:
            return None
        found[name] = User(name, hash, tuple(json.loads(f"[{groups}]")) if groups else ())
    return found if at == len(text) else None


def _user(source: str, name: str, table: Any) -> User:
    where = f"{source}: user {name!r}"
    if not isinstance(table, Mapping) or not isinstance(table.get("hash"), str):
        raise ConfigError(f"{where} has no hash; set one with `stampede user add {name}`.")
    if not table["hash"].startswith("$argon2id$"):
        raise ConfigError(f"{where} has a hash that is not argon2id; set it anew with `stampede user add {name}`.")
    groups = table.get("groups", [])
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise ConfigError(f"{where}: groups must be a list of texts.")
    unknown = set(table) - {"hash", "groups"}
    if unknown:
        raise ConfigError(f"{where} has an unknown entry {sorted(unknown)[0]!r}; known are hash and groups.")
    return User(name, table["hash"], tuple(groups))


def save_users(path: str, users: Mapping[str, User]) -> None:
    """Replaces the file atomically and durably, readable by its owner only. Raises ConfigError."""
    try:
        replace_whole(path, "\n".join(map(_table, users.values())).encode())
    except OSError as error:
        raise ConfigError(f"Cannot write the users file {path}: {error.strerror}.") from error


def _table(user: User) -> str:
    lines = [f"[users.{_text(user.name)}]", f"hash = {_text(user.hash)}"]
    if user.groups:
        lines.append(f"groups = [{', '.join(map(_text, user.groups))}]")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A TOML basic string: JSON's, but DEL is escaped as well, and nothing beyond ASCII is (no surrogate pairs)."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def check_name(name: str) -> None:
    """Raises ConfigError for names that could not be told apart in a log, or typed in a CONNECT."""
    if not is_name(name):
        raise ConfigError(
            f"A user name has 1 to {MAX_NAME} printable characters and neither begins nor ends with a space."
        )


def checked_groups(names: Collection[str]) -> tuple[str, ...]:
    """Each once, sorted. Raises ConfigError for names that permissions could not name."""
    for name in names:
        if not is_name(name) or "," in name:
            raise ConfigError(
                f"A group name has 1 to {MAX_NAME} printable characters, no comma, and neither begins nor ends with a "
                "space."
            )
        if name == EVERYBODY:
            raise ConfigError(f"{EVERYBODY} stands for every user in permissions; call the group something else.")
    return tuple(sorted(set(names)))


def is_name(name: str) -> bool:
    """Can a user or a group be called that."""
    return bool(name) and len(name) <= MAX_NAME and name.isprintable() and name == name.strip()


def add_user(path: str, name: str, passcode: str, groups: Collection[str] = ()) -> bool:
    """Adds `name`, or changes the passcode of an existing user (who keeps the groups if none are given); True: there
    was one. Raises ConfigError."""
    check_name(name)
    if not passcode:
        raise ConfigError("The passcode is empty.")
    users = _existing(path)
    known = users.get(name)
    before = known.groups if known is not None else ()
    users[name] = User(name, hash_passcode(passcode), checked_groups(groups) or before)
    save_users(path, users)
    return known is not None


def set_groups(path: str, name: str, groups: Collection[str]) -> tuple[str, ...]:
    """`name` belongs to just these groups: each once, sorted. Raises ConfigError when there is no such user."""
    users = _with(path, name)
    users[name] = user = User(name, users[name].hash, checked_groups(groups))
    save_users(path, users)
    return user.groups


def remove_user(path: str, name: str) -> None:
    """Raises ConfigError when there is no such user."""
    users = _with(path, name)
    del users[name]
    save_users(path, users)


def list_users(path: str) -> list[str]:
    """Names, sorted; empty when there is no file. Raises ConfigError."""
    return sorted(_existing(path))


def _with(path: str, name: str) -> dict[str, User]:
    """All users, of whom `name` is one."""
    users = _existing(path)
    if name not in users:
        raise ConfigError(f"There is no user {name!r} in {path}.")
    return users


def _existing(path: str) -> dict[str, User]:
    return load_users(path) if os.path.exists(path) else {}


# ── users whom others know: issuers of tokens, directories, hooks ──────────────────────────────────


class TooManyGroupsError(Exception):
    """A user is in more groups than we take."""

    def __init__(self, count: int | str) -> None:
        super().__init__(
            f"in {count} groups, {MOST_GROUPS} are the most: less of them would be less rights, so he is not let in; "
            "narrow what is asked for (group_filter, groups_claim, or what the hook answers)"
        )


def counts_in(hosts: Collection[str], host: str) -> bool:
    """Do users of a directory, issuer or hook count in this virtual host, if it is to count in these (none: the default
    one; *: all)."""
    return not host if not hosts else EVERYBODY in hosts or host in hosts


def outside_groups(names: Iterable[object]) -> list[str]:
    """Those that permissions can name, each once, sorted. Raises TooManyGroupsError."""
    found = {
        name for name in names if isinstance(name, str) and is_name(name) and "," not in name and name != EVERYBODY
    }
    if len(found) > MOST_GROUPS:
        raise TooManyGroupsError(len(found))
    return sorted(found)
