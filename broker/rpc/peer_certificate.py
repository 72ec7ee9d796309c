"""The certificate of the peer that is dialled, which gRPC verifies and does not show: for the list of revoked ones.

    certificate_of()   a handshake of our own, which ends when the other end has shown its certificate
    the call           trusts that one certificate and no other (Credentials.channel): a server that answered the
                       handshake in place of one whose certificate is revoked gains nothing

Rule: only where there is such a list, because each dial is two handshakes then. Must not know what is called, nor what
is on the list.
"""

from __future__ import annotations

import asyncio
import ssl


async def certificate_of(address: str, context: ssl.SSLContext) -> bytes:
    """As PEM. context: says whom to trust. Raises OSError (ssl.SSLError is one)."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=host)
    try:
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(True)
        return ssl.DER_cert_to_PEM_cert(shown or b"").encode()
    finally:
        writer.transport.abort()
