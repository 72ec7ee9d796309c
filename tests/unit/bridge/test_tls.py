"""A bridge over TLS: both ends prove who they are, and nothing leaves for one who does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.abuse.certificates import authority, issued
from tests.harness.waiting import eventually as until

from .world import bridged, broker, received, sent


async def test_it_goes_to_whom_the_ca_has_signed_and_shows_its_own_certificate(tmp_path: Path):
    ca, other_ca = authority(tmp_path, "ca"), authority(tmp_path, "other")
    cert, key = issued(tmp_path, "far", ca)
    own, own_key = issued(tmp_path, "bridge", ca)
    listens: dict[str, Any] = {
        "acceptors.safe.port": 0, "acceptors.safe.host": "127.0.0.1", "acceptors.safe.tls": "yes",
        "acceptors.safe.tls_cert_file": cert, "acceptors.safe.tls_key_file": key,
        "acceptors.safe.tls_client_ca_file": ca[0], "acceptors.safe.tls_client_auth": "need",
    }  # fmt: skip
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b", **listens) as there:
        await sent(here, "/queue/q", b"1")
        at = f"stomp+ssl://127.0.0.1:{there.listeners.ports['safe']}"
        table = {"url": at, "source": "/queue/q", "ca_file": str(other_ca[0])}
        bridges = bridged(here, q=table)
        await until(lambda: (rows := bridges.rows()) and rows[0]["why"])
        assert "certificate" in bridges.rows()[0]["why"].lower()
        bridges = bridged(here, q={**table, "ca_file": str(ca[0])})  # it has no certificate of its own
        await until(lambda: (rows := bridges.rows()) and rows[0]["failures"] >= 2)
        assert bridges.rows()[0]["up"] is False
        shown = {"ca_file": str(ca[0]), "cert_file": str(own), "key_file": str(own_key)}
        bridged(here, q={**table, **shown})
        assert [message.body for message in await received(there, "/queue/q", 1)] == [b"1"]
