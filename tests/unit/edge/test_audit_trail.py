"""Lines of the audit log about clients: how many edge.audit asks for, and what never stands in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.edge.access.auth import Principal
from broker.edge.access.users import User

from .bench import Bench, Wire


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    told = [json.loads(record.getMessage()) for record in caplog.records if record.name == "stampede.audit"]
    return [(line["who"], line["action"], line["outcome"]) for line in told]


def joined(bench: Bench, login: str, passcode: str) -> Any:
    session = bench.edge.open(Wire())  # type: ignore[arg-type]
    session.receive(f"CONNECT\naccept-version:1.2\nhost:h\nlogin:{login}\npasscode:{passcode}\n\n\0".encode())
    return session


@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        ("all", [("ada", "login", "done"), ("ada", "send", "not-allowed"), ("ada", "disconnect", "refused")]),
        ("failures", [("ada", "send", "not-allowed")]),
        ("off", []),
    ],
)
async def test_what_is_told(audit: str, expected: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench = Bench(audit=audit, permissions={"#": {"consume": "staff"}})
    auth: Any = bench.edge.auth
    auth.replace({"ada": User("ada", "$argon2id$x")})
    auth.try_now = lambda login, passcode, peer="": Principal(login, (), hash("$argon2id$x"))
    joined(bench, "ada", "s3cret").receive(b"SEND\ndestination:/queue/q\n\nbody\0")
    assert lines(caplog) == expected and "s3cret" not in caplog.text


async def test_a_login_that_is_nobody_s_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench = Bench(login_by="certificate")
    auth: Any = bench.edge.auth
    auth.replace({"ada": User("ada", "$argon2id$x")})
    for login in ("ada", "my-passcode", "$host/x.y"):
        session = joined(bench, login, "x")
        if session.login_task is not None:
            await session.login_task
    assert sorted(lines(caplog)) == [("", "login", "login-failed")] * 2 + [("ada", "login", "login-failed")]
    assert "my-passcode" not in caplog.text
