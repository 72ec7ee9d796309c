"""HTTP questions to servers that the settings name (issuers of tokens, judges of logins).

Rule: https, or http on this machine; no redirects, no proxies, bounded in bytes and seconds. Blocks: callers use a
thread.
"""

from __future__ import annotations

import ipaddress
import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from .client_tls import client_context

PIECE = 64 * 1024


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """It stays an error."""


def is_safe(url: str) -> bool:
    """https, or http on this machine: nobody in between has a say in the answer."""
    return _is_encrypted_or_near(url, "https", "http", False)


def is_safe_ldap(url: str, start_tls: bool) -> bool:
    """ldaps, or ldap on this machine or with StartTLS, and nothing behind host and port."""
    return url.count("/") == 2 and "?" not in url and _is_encrypted_or_near(url, "ldaps", "ldap", start_tls)


def _is_encrypted_or_near(url: str, encrypted: str, clear: str, anywhere: bool) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        if parts.scheme == encrypted or (anywhere and parts.scheme == clear):
            return bool(host)
        return parts.scheme == clear and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def fetch(url: str, *, ca_file: str, token_file: str, seconds: float, most: int) -> bytes:
    """The body of the answer. token_file: what to ask with, as a bearer token. Raises OSError or ValueError."""
    return _answer(url, None, ca_file, token_file, seconds, most)


def post(url: str, body: bytes, *, ca_file: str, token_file: str, seconds: float, most: int) -> bytes:
    """The same for a question of JSON."""
    return _answer(url, body, ca_file, token_file, seconds, most)


def _answer(url: str, asked: bytes | None, ca_file: str, token_file: str, seconds: float, most: int) -> bytes:
    if not is_safe(url):
        raise ValueError(f"{url[:200]!r} is not https, nor http on this machine")
    request = Request(url, asked, {"Accept": "application/json"})  # noqa: S310 (that was asked just now)
    if asked is not None:
        request.add_header("Content-Type", "application/json")
    ends = time.monotonic() + seconds
    context = client_context(ca_file or None)
    opener = build_opener(HTTPSHandler(context=context), _NoRedirects(), ProxyHandler({}))
    if token_file:
        with open(token_file, encoding="ascii") as file:
            request.add_header("Authorization", f"Bearer {file.read().strip()}")
    try:
        with opener.open(request, timeout=seconds) as answer:
            body = b""
            while piece := answer.read1(PIECE):
                body += piece
                if len(body) > most:
                    raise ValueError(f"the answer of {url[:200]!r} is larger than {most} bytes")
                if time.monotonic() > ends:
                    raise TimeoutError(f"{url[:200]!r} has not answered within {seconds:g} s")
            return body
    except HTTPError as error:
        error.close()  # it is the answer, with its socket
        raise OSError(f"{url[:200]!r} answers {error.code}") from None
    except HTTPException as error:
        raise OSError(f"{url[:200]!r} does not speak HTTP: {error!r:.200}") from None
