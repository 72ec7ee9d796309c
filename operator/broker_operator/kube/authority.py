"""Certificates that nobody else makes: an authority of one release, and what it signs.

Rule: pure but for keys, which are random; no clock, no API server. Needs the package `cryptography` (extra `identity`;
the image has it), which is imported when something is made: who has cert-manager needs it not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

EARLIER = timedelta(hours=1)
"""A certificate holds from so long ago: clocks differ."""
LONGEST_NAME = 64
"""Characters of a common name; nobody looks at it, since all names stand in the certificate's own list."""


class Pair(NamedTuple):
    """PEM."""

    certificate: str
    key: str


def names_sum(names: Iterable[str]) -> str:
    """Tells whether a certificate has the names that are wanted now; the order does not matter. As in the chart."""
    return hashlib.sha256(",".join(sorted(names)).encode()).hexdigest()


def new_authority(name: str, days: int, now: float) -> Pair:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = _usage(signs=True)
    made = (
        _certificate(subject, subject, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pair(made, key, key)


def signed(authority: Pair, names: list[str], days: int, now: float) -> Pair:
    """For a server and a client of that name; both ends of a stream between components are both. It ends with the
    authority at the latest. Raises ValueError for an authority that cannot be read."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = load_pem_private_key(authority.key.encode(), None)
    left = (issuer.not_valid_after_utc - datetime.fromtimestamp(now, UTC)) / timedelta(days=1)
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _certificate(_name(names[0]), issuer.subject, key.public_key(), min(days, left), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(_signer_of(issuer), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    )
    return _pair(made, key, signer)  # type: ignore[arg-type]  # any kind of key that signs


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:LONGEST_NAME])])


def _signer_of(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """RFC 5280 wants it (Python 3.13 refuses a certificate without). By the name that the authority itself has for its
    key: one that Helm made may have another than we would give it."""
    from cryptography import x509

    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _usage(signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True, key_encipherment=not signs, key_cert_sign=signs, crl_sign=signs,
        content_commitment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float, now: float
) -> x509.CertificateBuilder:
    from cryptography import x509

    begin = datetime.fromtimestamp(now, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - EARLIER)
        .not_valid_after(begin + timedelta(days=days))
    )


def _pair(made: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey) -> Pair:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    certificate = made.sign(signer, SHA256())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM).decode(), text.decode())
