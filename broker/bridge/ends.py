"""The two ends of a bridge: a connection to this broker, and one to the other.

Rule: a passcode is read from its file at each connecting, handed to CONNECT and forgotten; no text made here holds it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from broker.client import Client, ClientError, ConnectFailed, connect
from broker.client.transport import Transport
from broker.config.bridges import SECURE, BridgeSettings
from broker.seams.client_tls import client_context
from broker.seams.files import read_whole

from .kinds import STAMPEDE, Kind, kind_of

Inside = Callable[[str, str], Transport]
"""(bridge, user) → a connection to this broker from within."""

RECEIPT_S = 60.0
"""So long may either end take to answer."""
BUFFER_BYTES = 4 * 1024 * 1024
PASSCODE_BYTES = 4096
LARGE_BYTES = 256 * 1024
"""Bodies from this size on are never whole in memory here."""


@dataclass(frozen=True, slots=True)
class End:
    """An open one. where: for people."""

    client: Client
    kind: Kind
    where: str


async def here(name: str, bridge: BridgeSettings, inside: Inside, client_id: str) -> End:
    """Raises ClientError."""
    client = Client(
        inside(name, bridge.user), receipt_timeout=RECEIPT_S, buffer_bytes=BUFFER_BYTES, large_body_bytes=LARGE_BYTES
    )
    headers = [("accept-version", "1.2"), ("heart-beat", "0,0")]
    if bridge.virtual_host:
        headers.append(("host", bridge.virtual_host))
    if client_id:
        headers.append(("client-id", client_id))
    try:
        async with asyncio.timeout(RECEIPT_S):
            await client.login(headers, (0, 0))
    except TimeoutError:
        await client.kill()
        raise ConnectFailed("this broker does not answer") from None
    except ClientError as error:
        await client.kill()
        raise ConnectFailed(f"this broker: {error} (`user` of the bridge says who it is here)") from error
    except BaseException:
        await client.kill()
        raise
    return End(client, STAMPEDE, "this broker")


async def there(bridge: BridgeSettings, client_id: str) -> End:
    """Raises ClientError."""
    tls, passcode = await asyncio.to_thread(_files, bridge)
    headers = {"login": bridge.login, "passcode": passcode} if bridge.login else {}
    beat = bridge.heartbeat_ms
    client = await connect(
        bridge.url, heartbeat=(beat, beat), tls=tls, client_id=client_id or None, vhost=bridge.host or None,
        headers=headers, receipt_timeout=RECEIPT_S, buffer_bytes=BUFFER_BYTES, large_body_bytes=LARGE_BYTES,
    )  # fmt: skip
    return End(client, kind_of(bridge.broker, client.server), bridge.url)


def _passcode(path: str) -> str:
    """One line and no more: administrators of the API say which file, and where it is sent to. Neither a key nor a
    table of users goes there, and no second line becomes a header of CONNECT. Raises OSError, ConnectFailed."""
    text = read_whole(path, PASSCODE_BYTES + 1).decode().rstrip("\r\n")
    if len(text) > PASSCODE_BYTES or not text.isprintable():
        raise ConnectFailed(f"{path} is no passcode: it must be one line of at most {PASSCODE_BYTES} characters")
    return text


def _files(bridge: BridgeSettings) -> tuple[ssl.SSLContext | None, str]:
    """What stands in files, in a thread. Raises ClientError."""
    passcode, tls = "", None
    try:
        if bridge.passcode_file:
            passcode = _passcode(bridge.passcode_file)
        if bridge.url.partition(":")[0] in SECURE and (bridge.ca_file or bridge.cert_file):
            tls = client_context(bridge.ca_file or None)
            if bridge.cert_file:
                tls.load_cert_chain(bridge.cert_file, bridge.key_file)
    except (OSError, UnicodeDecodeError) as error:
        named = bridge.passcode_file if not passcode and bridge.passcode_file else "ca_file, cert_file or key_file"
        why = error.strerror if isinstance(error, OSError) and error.strerror else "cannot be used"
        raise ConnectFailed(f"{named}: {why}") from None
    return tls, passcode
