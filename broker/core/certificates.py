"""X.509 in the small: whose certificate it is, and when it ends. The ssl module tells neither in the form we need.

Rule: pure functions over bytes and the dictionaries of `getpeercert()`.
"""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple

_SHORT = {
    "commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C",
    "stateOrProvinceName": "ST", "localityName": "L", "domainComponent": "DC", "userId": "UID",
}  # fmt: skip
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def subject(certificate: dict[str, Any] | None) -> str | None:
    """The subject of a verified certificate as RFC 4514 writes it, most specific part first; None without one.

    Escaped, so that nobody can smuggle a second CN into one value."""
    if not certificate or not certificate.get("subject"):
        return None
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escape(value)}" for name, value in rdn)
        for rdn in reversed(certificate["subject"])
    )


class Issued(NamedTuple):
    """Which certificate one is. issuer   CN of who has signed it."""

    issuer: str
    serial: int


class PeerCertificate(NamedTuple):
    """What the verified certificate of a client says. Names by kind: cn, dns, email, uri.    not_after   epoch
    seconds."""

    subject: str | None
    names: dict[str, tuple[str, ...]]
    not_after: int
    issued: Issued = Issued("", 0)

    def name(self, kind: str) -> str | None:
        """Of its holder, by that rule (AcceptorSettings.certificate_user); None where there is none, or several: which
        of them is meant nobody can say."""
        if kind == "dn":
            return self.subject
        found = self.names.get(kind, ())
        return found[0] if len(found) == 1 else None


_KINDS = {"DNS": "dns", "email": "email", "URI": "uri"}


def peer_certificate(certificate: dict[str, Any] | None) -> PeerCertificate | None:
    """None without a verified one."""
    if not certificate:
        return None
    names: dict[str, tuple[str, ...]] = {}
    for rdn in certificate.get("subject", ()):
        for name, value in rdn:
            if name == "commonName":
                names["cn"] = (*names.get("cn", ()), value)
    for kind, value in certificate.get("subjectAltName", ()):
        if kind in _KINDS:
            names[_KINDS[kind]] = (*names.get(_KINDS[kind], ()), value)
    until = certificate.get("notAfter")
    issuers = [value for rdn in certificate.get("issuer", ()) for name, value in rdn if name == "commonName"]
    which = Issued(",".join(issuers), int(certificate.get("serialNumber", "0"), 16))
    return PeerCertificate(subject(certificate), names, int(ssl.cert_time_to_seconds(until)) if until else 0, which)


def _escape(value: str) -> str:
    text = "".join("\\" + c if c in ',+"\\<>;=' else c for c in value)
    if text[:1] in (" ", "#"):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(value) > 1 else text


def no_password() -> str:
    """For `load_cert_chain`: without one that fails, OpenSSL asks on the terminal."""
    raise ssl.SSLError("the private key is encrypted; store it without a password")


def first_certificate(pem: str) -> bytes:
    """DER of the first certificate of a PEM file (the server's own). Raises ValueError."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = pem.find(begin)
    stop = pem.find(end, start)
    if start < 0 or stop < 0:
        raise ValueError("the certificate file holds no PEM certificate")
    return ssl.PEM_cert_to_DER_cert(pem[start : stop + len(end)])


def not_after(der: bytes) -> int:
    """Epoch seconds of the end of validity (RFC 5280 §4.1: Certificate → tbsCertificate → validity → notAfter).

    The ssl module tells it only of a peer's certificate. Raises ValueError."""
    try:
        at, _ = _element(der, 0)  # Certificate
        at, _ = _element(der, at)  # tbsCertificate
        if der[at] == 0xA0:  # [0] version
            at = sum(_element(der, at))
        for _skipped in ("serialNumber", "signature", "issuer"):
            at = sum(_element(der, at))
        at, _ = _element(der, at)  # validity
        at = sum(_element(der, at))  # notBefore
        body, length = _element(der, at)
        text = der[body : body + length].decode("ascii")
        if der[at] == 0x17:  # UTCTime: two digits of the year, 50 … 49 is 1950 … 2049
            text = ("19" if text[:2] >= "50" else "20") + text
        parts = (
            f"{_MONTHS[int(text[4:6]) - 1]} {int(text[6:8]):2d} {text[8:10]}:{text[10:12]}:{text[12:14]} {text[:4]} GMT"
        )
        return ssl.cert_time_to_seconds(parts)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("the certificate cannot be read") from error


def _element(der: bytes, at: int) -> tuple[int, int]:
    """(start of the contents, their length) of the DER element at `at`."""
    length = der[at + 1]
    if length < 0x80:
        return at + 2, length
    count = length & 0x7F
    return at + 2 + count, int.from_bytes(der[at + 2 : at + 2 + count], "big")
