"""A bridge for as long as it is wanted."""

from __future__ import annotations

from pathlib import Path

from broker.edge.access.users import add_user
from tests.harness import free_ports
from tests.harness.waiting import eventually as until

from .world import bridged, broker, received, sent, url


async def test_it_waits_for_the_other_end_and_says_why_once(tmp_path: Path, caplog):
    (its,) = free_ports(1)
    at = f"stomp://127.0.0.1:{its}"
    async with broker(tmp_path / "a") as here:
        await sent(here, "/queue/q", b"1")
        bridges = bridged(here, q={"url": at, "source": "/queue/q"})
        await until(lambda: (rows := bridges.rows()) and rows[0]["failures"] >= 4)
        assert "connection refused" in bridges.rows()[0]["why"]
        assert caplog.text.count("connection refused") == 1
        async with broker(tmp_path / "b", **{"edge.port": its}) as there:
            assert [message.body for message in await received(there, "/queue/q", 1)] == [b"1"]
            assert bridges.rows()[0]["why"] == ""


async def test_nobody_reads_the_passcode(tmp_path: Path, caplog):
    (tmp_path / "b").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t-passcode\n")
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b") as there:
        bridges = bridged(
            here, q={"url": url(there), "source": "/queue/q", "login": "eve", "passcode_file": str(secret)}
        )  # fmt: skip
        await until(lambda: (rows := bridges.rows()) and rows[0]["up"])
        assert "s3cr3t" not in caplog.text + repr(bridges.rows())
        secret.unlink()
        bridges = bridged(
            here, q={"url": url(there), "source": "/queue/r", "login": "eve", "passcode_file": str(secret)}
        )  # fmt: skip
        await until(lambda: (rows := bridges.rows()) and rows[0]["why"])
        assert str(secret) in bridges.rows()[0]["why"]


async def test_a_user_who_is_not_there_is_named(tmp_path: Path):
    users = str(tmp_path / "users.toml")
    add_user(users, "ada", "x")
    async with broker(tmp_path / "a", **{"edge.users_file": users}) as here, broker(tmp_path / "b") as there:
        bridges = bridged(here, q={"url": url(there), "source": "/queue/q"})
        await until(lambda: (rows := bridges.rows()) and rows[0]["why"])
        assert "`user` of the bridge" in bridges.rows()[0]["why"]
        bridged(here, q={"url": url(there), "source": "/queue/q", "user": "ada"})
        await until(lambda: (rows := bridges.rows()) and rows[0]["up"])
