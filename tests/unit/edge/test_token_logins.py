"""Tokens of a real issuer on this machine: which count, whose they are, and what becomes of keys that are withdrawn."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.errors import RefusedError
from broker.core.virtual_host import DEFAULT, VirtualHost
from broker.edge.access import token_logins
from broker.edge.access.auth import Principal
from broker.edge.access.token_logins import TokenLogins
from broker.seams.clock import SystemClock
from tests.harness.issuer import AUDIENCE, LocalIssuer

PEER: Any = SimpleNamespace(peer="10.0.0.1:1", id=1)


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with LocalIssuer() as issuer:
        issuer.key("one")
        yield issuer


@pytest.fixture
async def logins(issuer: LocalIssuer) -> AsyncIterator[TokenLogins]:
    made = await begun(issuer)
    yield made
    made.close()


async def begun(issuer: LocalIssuer, **settings: Any) -> TokenLogins:
    table = {"issuer": issuer.url, "audience": AUDIENCE, "leeway_s": 0.0, **settings}
    made = TokenLogins({"ours": table}, SystemClock(), lambda: issuer.asked.append("changed"))
    await made._ask(made._issuers[0], 0.0)
    return made


async def proven(logins: TokenLogins, token: str, host: VirtualHost = DEFAULT) -> Principal:
    number = next(numbers)
    peer: Any = SimpleNamespace(peer=f"10.0.{number // 250}.{number % 250}:1", id=number)
    return await logins.prove(token, "", host, peer)


numbers = iter(range(1, 10_000))


async def refused(logins: TokenLogins, token: str, caplog: pytest.LogCaptureFixture) -> str:
    """Why, as the log has it."""
    caplog.clear()
    caplog.set_level("INFO")
    with pytest.raises(RefusedError, match="Login failed") as told:
        await proven(logins, token)
    assert told.value.detail.encode()
    (line,) = [record.getMessage() for record in caplog.records if "login by token failed" in record.getMessage()]
    assert token not in line
    return line.partition("failed: ")[2]


async def test_a_token_says_who_somebody_is(issuer: LocalIssuer, logins: TokenLogins) -> None:
    issuer_token = issuer.token("one", "ada", groups=["staff", "shop", "staff", "*", "a,b", 7])
    found = await proven(logins, issuer_token)
    assert (found.name, found.groups, found.outside) == ("ada", ("shop", "staff"), True)
    assert 50 < found.until - time.monotonic() < 61 and logins.still_valid(found.mark)
    assert logins.known(issuer_token, DEFAULT) == found
    assert logins.known(issuer_token, VirtualHost("shop")) is None


def forged(issuer: LocalIssuer) -> dict[str, tuple[str, str]]:
    """Token, and why it is refused."""

    def bare(header: dict[str, str], secret: bytes = b"") -> str:
        said = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 60}
        parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, said)]
        text = b".".join(parts)
        sign = base64.urlsafe_b64encode(hmac.digest(secret, text, hashlib.sha256)).rstrip(b"=") if secret else b""
        return (text + b"." + sign).decode()

    good = issuer.token("one", "ada")
    issuer.key("hidden", shown=False)
    return {
        "none": (bare({"alg": "none", "kid": "one"}), "InvalidAlgorithmError"),
        # The key of the signature would be the public key, which everybody has.
        "hs-confusion": (bare({"alg": "HS256", "kid": "one"}, issuer.pem("one")), "InvalidAlgorithmError"),
        "expired": (issuer.token("one", "ada", -1), "ExpiredSignatureError"),
        "no end": (issuer.token("one", "ada", exp=None), "MissingRequiredClaimError"),
        "for others": (issuer.token("one", "ada", aud="another"), "InvalidAudienceError"),
        "for nobody": (issuer.token("one", "ada", aud=None), "MissingRequiredClaimError"),
        "of others": (issuer.token("one", "ada", iss="https://example.org"), "no issuer"),
        "not yet": (issuer.token("one", "ada", nbf=time.time() + 60), "ImmatureSignatureError"),
        "another key": (issuer.token("hidden", "ada"), "no such key"),
        "another signature": (good[:-8] + "AAAAAAAA", "InvalidSignatureError"),
        "another body": (".".join((good.split(".")[0], issuer.token("one", "eve").split(".")[1], good.split(".")[2])),
                         "InvalidSignatureError"),
        "nobody": (issuer.token("one", "ada", sub=None), "has no sub"),
        "a host's": (issuer.token("one", "$host/shop.ada"), "no name of a user"),
        "a line": (issuer.token("one", "ada\neve"), "no name of a user"),
        "no number": (issuer.token("one", "ada", exp=10**400), "OverflowError"),
        "half a character": (issuer.token("one", "\ud800"), "no name of a user"),
        "no token": ("eyJ.eyJ.x", "no issuer"),
        "deep": (base64.urlsafe_b64encode(b"[" * 7000).decode() + ".e30.x", "no issuer"),
    }  # fmt: skip


async def test_no_other_token_does(issuer: LocalIssuer, logins: TokenLogins, caplog: pytest.LogCaptureFixture) -> None:
    for name, (token, why) in forged(issuer).items():
        assert why in await refused(logins, token, caplog), name


async def test_secrets_among_the_keys_are_no_keys(issuer: LocalIssuer) -> None:
    public: dict[str, Any] = issuer.public("one")
    issuer.extra = [
        {"kty": "oct", "kid": "s", "k": "c2VjcmV0"},
        {"kty": "EC", "kid": "x"},
        {**public, "use": "enc", "kid": "e"},
        {**public, "alg": ["ES256"], "kid": "l"},
    ]
    logins = await begun(issuer, algorithms="ES256")
    assert list(logins._issuers[0].keys) == ["one"]
    logins.close()


async def test_a_new_key_is_asked_for_once_and_floods_of_unknown_keys_ask_no_more(
    issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = await begun(issuer)
    issuer.key("two", "RSA")
    with monkeypatch.context() as patched:
        patched.setattr(token_logins, "LEAST_S", 0.0)
        assert (await proven(logins, issuer.token("two", "bob"))).name == "bob"
    before = len(issuer.asked)
    issuer.key("hidden", shown=False)
    tokens = [issuer.token("hidden", f"u{n}") for n in range(50)]
    await asyncio.gather(*(proven(logins, token) for token in tokens), return_exceptions=True)
    assert len(issuer.asked) == before
    logins.close()


async def test_whose_key_is_withdrawn_does_not_hold_any_more(issuer: LocalIssuer) -> None:
    issuer.key("two")
    logins = await begun(issuer)
    token = issuer.token("one", "ada")
    ada, bob = await proven(logins, token), await proven(logins, issuer.token("two", "bob"))
    issuer.shown = ["two"]
    await logins._ask(logins._issuers[0], 0.0)
    assert not logins.still_valid(ada.mark) and logins.still_valid(bob.mark)
    assert logins.known(token, DEFAULT) is None and "changed" in issuer.asked
    with pytest.raises(RefusedError):
        await proven(logins, token)
    logins.close()


async def test_an_issuer_that_is_away_or_says_nonsense_takes_no_keys_away(
    issuer: LocalIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    logins = await begun(issuer)
    ada = await proven(logins, issuer.token("one", "ada"))
    for breakage in (lambda: issuer.shown.clear(), lambda: setattr(issuer, "said_issuer", "https://example.org")):
        breakage()
        await logins._ask(logins._issuers[0], 0.0)
        assert logins.still_valid(ada.mark) and "those from before stay" in caplog.text
    logins.close()


async def test_names_groups_and_hosts_as_the_settings_have_them(issuer: LocalIssuer) -> None:
    logins = await begun(
        issuer, user_claim="email", user_prefix="oidc:", groups_claim="realm.roles", groups_prefix="k-",
        virtual_hosts="shop", jwks_url=f"{issuer.url}/keys",
    )  # fmt: skip
    assert issuer.asked == ["/keys"]
    token = issuer.token("one", "x", email="ada@example.org", realm={"roles": ["a", "b"]})
    found = await proven(logins, token, VirtualHost("shop"))
    assert (found.name, found.groups) == ("$host/shop.oidc:ada@example.org", ("k-a", "k-b"))
    with pytest.raises(RefusedError):
        await proven(logins, token)  # of the default host
    logins.close()


async def test_it_asks_with_the_token_of_a_pod(issuer: LocalIssuer, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("pod-token\n")
    logins = await begun(issuer, token_file=str(tmp_path / "token"))
    assert issuer.authorization == ["Bearer pod-token"] * 2
    logins.close()


async def test_an_issuer_that_never_ends_its_answer_keeps_no_other_from_being_asked(issuer: LocalIssuer) -> None:
    gone = asyncio.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.is_set():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
            writer.close()
            await writer.wait_closed()
        gone.set()

    over = asyncio.Event()
    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    slow = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    tables = {
        "slow": {"issuer": slow, "audience": AUDIENCE, "timeout_s": 0.2},
        "ours": {"issuer": issuer.url, "audience": AUDIENCE, "timeout_s": 10.0},
    }
    logins = TokenLogins(tables, SystemClock(), lambda: None)
    async with asyncio.timeout(20):
        asked = asyncio.ensure_future(logins._ask(logins._issuers[0], 0.0))
        await asyncio.sleep(0.1)
        await logins._ask(logins._issuers[1], 0.0)
        assert logins._issuers[1].keys and not asked.done()
        await asked
        over.set()
        await gone.wait()
    logins.close()
    server.close()
    await server.wait_closed()


async def test_an_issuer_that_speaks_no_http_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-x\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    logins = TokenLogins({"ours": {"issuer": url, "audience": AUDIENCE}}, SystemClock(), lambda: None)
    await logins._ask(logins._issuers[0], 0.0)
    assert "does not speak HTTP" in caplog.text
    logins.close()
    server.close()
    await server.wait_closed()
