"""Lists of revoked certificates (CRLs), as files that change.

Rule: what is on a list counts, whatever key has signed the list: the file is ours. Needs the library `cryptography`,
loaded only where there is such a file.
"""

from __future__ import annotations

from typing import Final

from broker.core.certificates import Issued

from .files import read_whole

_END: Final = b"-----END X509 CRL-----"


def revoked(path: str) -> frozenset[Issued]:
    """All of them in a PEM file. Raises OSError, ValueError; ImportError where the library is missing."""
    from cryptography import x509

    found: set[Issued] = set()
    pieces = [piece + _END for piece in read_whole(path).split(_END)[:-1]]
    if not pieces:
        raise ValueError(f"{path} has no list of revoked certificates (BEGIN X509 CRL)")
    for piece in pieces:
        try:
            listed = x509.load_pem_x509_crl(piece)
        except x509.InvalidVersion as error:  # no ValueError
            raise ValueError(f"{path}: {error}") from None
        found.update(Issued(_cn(listed.issuer), each.serial_number) for each in listed)
    return frozenset(found)


def issued(pem: bytes) -> Issued:
    """Which certificate that is. Raises ValueError; ImportError where the library is missing."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem)
    return Issued(_cn(certificate.issuer), certificate.serial_number)


def _cn(name: object) -> str:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    assert isinstance(name, x509.Name)
    return ",".join(str(each.value) for each in name.get_attributes_for_oid(NameOID.COMMON_NAME))
