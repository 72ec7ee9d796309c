"""`stampede cluster users`."""

from __future__ import annotations

import json

from .test_cluster_cli import KEYS, run, store

__all__ = ["store"]


def test_users_belong_to_groups(store):
    def groups():
        return json.loads(store.keys[KEYS.user("ada")].value).get("groups")

    run("users", "set", "ada", "--passcode-stdin", "--group", "shop", "--group", "audit", stdin="secret\n")
    run("users", "set", "ada", "--passcode-stdin", stdin="other\n")
    assert groups() == ["audit", "shop"]
    assert run("users", "groups", "ada", "staff") == "ada belongs to staff.\n" and groups() == ["staff"]
    assert "no comma" in run("users", "groups", "ada", "a,b", status=2)
    run("users", "groups", "ada")
    assert groups() is None
    assert "There is no user bob" in run("users", "groups", "bob", "x", status=1)
    assert KEYS.user("bob") not in store.keys


def test_users_never_show_their_hashes(store):
    run("users", "set", "ada", "--passcode-stdin", stdin="secret\n")
    assert run("users", "list") == "ada\n"
    assert "passcode is empty" in run("users", "set", "bob", "--passcode-stdin", stdin="\n", status=2)
    assert "$argon2id$" in store.keys[KEYS.user("ada")].value.decode()
    text = run("dump")
    assert "argon2" not in text and len(text.splitlines()) == len(store.keys)
    run("users", "remove", "ada")
    assert "There is no user ada" in run("users", "remove", "ada", status=1)
