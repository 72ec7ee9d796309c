"""Certificates of a release: what they say, how long, and that TLS takes them."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest
from broker_operator.kube.authority import Pair, names_sum, new_authority, signed
from cryptography import x509

from broker.core.certificates import first_certificate, not_after

DAY = 86400.0
NOW = time.time()
NAMES = ["stomp-owner.mq.svc", "*.stomp-owner.mq.svc", "localhost"]


@pytest.fixture(scope="module")
def authority() -> Pair:
    return new_authority("Stampede stomp", 3650, NOW)


def read(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.encode())


def test_it_says_what_it_is(authority):
    made = read(authority)
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert made.subject == made.issuer
    leaf = read(signed(authority, NAMES, 365, NOW))
    assert leaf.issuer == made.subject and not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES
    leaf.verify_directly_issued_by(made)


def test_how_long_it_lasts_and_never_longer_than_its_authority(authority):
    def ends(pair: Pair) -> float:
        return not_after(first_certificate(pair.certificate))

    assert ends(signed(authority, NAMES, 100, NOW)) == pytest.approx(NOW + 100 * DAY, abs=2)
    assert ends(signed(authority, NAMES, 9999, NOW)) == pytest.approx(ends(authority), abs=2)


def test_a_name_may_be_longer_than_a_common_name(authority):
    long = f"{'a' * 60}.{'b' * 60}.svc"
    leaf = read(signed(authority, [long], 1, NOW))
    assert leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    ) == [long]


def test_both_ends_of_a_tls_stream_take_it(authority, tmp_path: Path):
    pair = signed(authority, NAMES, 365, NOW)
    (tmp_path / "ca").write_text(authority.certificate)
    (tmp_path / "chain").write_text(pair.certificate + pair.key)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca"))
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(tmp_path / "ca"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN  # as by default from Python 3.13 on
    for context in (server, client):
        context.load_cert_chain(str(tmp_path / "chain"))
    ways = [ssl.MemoryBIO() for _ in range(2)]
    ends = [
        client.wrap_bio(ways[0], ways[1], server_hostname="x.stomp-owner.mq.svc"),
        server.wrap_bio(ways[1], ways[0], server_side=True),
    ]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].getpeercert() and ends[1].getpeercert()


def test_the_sum_of_names_does_not_depend_on_their_order_and_is_the_charts():
    assert names_sum(["b", "a"]) == names_sum(["a", "b"]) != names_sum(["a"])
    assert names_sum(["b", "a"]) == __import__("hashlib").sha256(b"a,b").hexdigest()
