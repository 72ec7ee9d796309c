"""When a certificate ends: just enough DER to find `notAfter`.

Rule: pure; what cannot be read is None, never a guess. Nothing is checked: that is the broker's and its clients' part.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

_SEQUENCE, _EXPLICIT_0, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def not_after(pem: str) -> float | None:
    """Seconds since the epoch at which the first certificate of a PEM file ends."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = pem.partition(begin)
    if not found or end not in rest:
        return None
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(begin + rest.partition(end)[0] + end))
    except (ValueError, IndexError):
        return None


def _not_after(der: bytes) -> float:
    certificate = _inside(der, 0, _SEQUENCE)
    at = _inside(der, certificate, _SEQUENCE)
    if der[at] == _EXPLICIT_0:
        at = _behind(der, at)  # version
    for _ in range(3):  # serial number, algorithm, issuer
        at = _behind(der, at)
    validity = _inside(der, at, _SEQUENCE)
    tag, start, length = _element(der, _behind(der, validity))
    text = der[start : start + length].decode("ascii")
    if tag not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError("no time")
    if tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text  # RFC 5280: two digits, 1950 to 2049
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """(tag, where its content starts, how long that is)."""
    tag, length = der[at], der[at + 1]
    if length < 0x80:
        return tag, at + 2, length
    size = length & 0x7F
    return tag, at + 2 + size, int.from_bytes(der[at + 2 : at + 2 + size], "big")


def _inside(der: bytes, at: int, wanted: int) -> int:
    tag, start, _ = _element(der, at)
    if tag != wanted:
        raise ValueError("not a certificate")
    return start


def _behind(der: bytes, at: int) -> int:
    _, start, length = _element(der, at)
    return start + length
