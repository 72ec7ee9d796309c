"""`stampede cluster roles`: what it takes, and that passwords are read from files alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.app.commands.etcd.roles_cli import EtcdUser, password_of, roles
from broker.core.errors import ConfigError


def test_a_user_is_a_name_and_the_file_with_the_password(tmp_path: Path):
    file = tmp_path / "of-ada"
    file.write_text("pass word\n")
    user = EtcdUser("owner", f"ada:{file}")
    assert (user.role, user.name, user.password) == ("owner", "ada", "pass word")


@pytest.mark.parametrize("text", ["ada", "ada:", ":file"])
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(ConfigError, match="--edge is NAME:FILE"):
        EtcdUser("edge", text)


def test_root_is_nobodys_role(tmp_path: Path):
    """It got the password of an owner before etcd refused to take its own role away."""
    file = tmp_path / "password"
    file.write_text("x")
    with pytest.raises(ConfigError, match="--owner cannot be root"):
        EtcdUser("owner", f"root:{file}")


def test_a_file_without_a_password_is_refused(tmp_path: Path):
    empty = tmp_path / "empty"
    empty.write_text("\n")
    with pytest.raises(ConfigError, match="There is no password in"):
        password_of(str(empty))
    with pytest.raises(ConfigError, match="Cannot read the password in"):
        password_of(str(tmp_path / "gone"))


def test_roles_with_one_user_keep_nobody_from_anything(tmp_path: Path):
    file = tmp_path / "password"
    file.write_text("x")
    done = CliRunner().invoke(roles, ["--owner", f"a:{file}", "--edge", f"a:{file}"])
    assert done.exit_code == 2 and "a user of its own" in done.output
    done = CliRunner().invoke(roles, [])
    assert done.exit_code == 2 and "Say which users" in done.output
