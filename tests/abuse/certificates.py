"""Certificates made on the spot with the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def authority(folder: Path, name: str) -> tuple[Path, Path]:
    """(certificate, key) of a CA."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
             "-out", cert, "-days", 2, "-subj", f"/CN={name}",
             # Default contexts want it since Python 3.13, and an issuer in what it has signed (RFC 5280, 4.2.1).
             "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
    return cert, key


def issued(
    folder: Path, name: str, ca: tuple[Path, Path], days: int = 2, names: tuple[str, ...] = ()
) -> tuple[Path, Path]:
    """(certificate, key) for localhost and these names, signed by `ca`. Negative days: it has expired."""
    cert, key, request = folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.csr"
    extensions = folder / f"{name}.ext"
    more = "".join(f",DNS:{each}" for each in names)
    extensions.write_text(f"authorityKeyIdentifier=keyid\nsubjectAltName=DNS:localhost,IP:127.0.0.1{more}\n")
    _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
             "-out", request, "-subj", f"/CN={name}")  # fmt: skip
    _openssl("x509", "-req", "-in", request, "-CA", ca[0], "-CAkey", ca[1], "-CAcreateserial", "-out", cert,
             "-days", days, "-extfile", extensions)  # fmt: skip
    return cert, key


def revocations(folder: Path, ca: tuple[Path, Path], *certificates: Path) -> Path:
    """A list of revoked certificates, signed by `ca`."""
    database, config, crl = folder / "index.txt", folder / "crl.conf", folder / "revoked.pem"
    database.write_text("")
    config.write_text(
        f"[ca]\ndefault_ca=it\n[it]\ndatabase={database}\ndefault_md=sha256\ndefault_crl_days=2\n"
        f"certificate={ca[0]}\nprivate_key={ca[1]}\n"
    )
    for certificate in certificates:
        _openssl("ca", "-config", config, "-revoke", certificate)
    _openssl("ca", "-config", config, "-gencrl", "-out", crl)
    return crl
