"""Certificates in the small: whose one is and when it ends, and no text of a value passes for another name."""

from __future__ import annotations

import ssl

import pytest

from broker.core.certificates import first_certificate, no_password, not_after, peer_certificate, subject


def element(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    length = bytes([len(body)]) if len(body) < 128 else b"\x82" + len(body).to_bytes(2, "big")
    return bytes([tag]) + length + body


def certificate(time: bytes, version: bool = True) -> bytes:
    head = element(0xA0, element(2, b"\2")) if version else b""
    validity = element(0x30, element(0x17, b"200101000000Z"), time)
    return element(
        0x30, element(0x30, head, element(2, b"\1"), element(0x30, b""), element(0x30, b"x" * 300), validity)
    )


@pytest.mark.parametrize(
    ("time", "epoch"),
    [
        (element(0x17, b"491231235959Z"), 2524607999),
        (element(0x17, b"500101000000Z"), -631152000),
        (element(0x18, b"20500101000000Z"), 2524608000),
        (element(0x18, b"99991231235959Z"), 253402300799),
    ],
)
def test_both_forms_of_time_are_read(time: bytes, epoch: int) -> None:
    assert not_after(certificate(time)) == epoch
    assert not_after(certificate(time, version=False)) == epoch


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x03\x02\x01\x01", certificate(element(0x17, b"hello"))])
def test_nonsense_is_a_value_error(der: bytes) -> None:
    with pytest.raises(ValueError):
        not_after(der)
    with pytest.raises(ValueError):
        first_certificate("no certificate")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([[("countryName", "DE")], [("organizationName", "Acme")], [("commonName", "a")]], "CN=a,O=Acme,C=DE"),
        ([[("commonName", "x,CN=admin")]], "CN=x\\,CN\\=admin"),
        ([[("commonName", "#1 ")]], "CN=\\#1\\ "),
        ([[("commonName", "a"), ("userId", "b")]], "CN=a+UID=b"),
        ([[("emailAddress", "a@b")]], "emailAddress=a@b"),
    ],
)
def test_subjects_cannot_be_forged_by_their_text(parts: list[list[tuple[str, str]]], text: str) -> None:
    assert subject({"subject": parts}) == text
    assert subject(None) is None
    assert subject({}) is None


PEER = {
    "subject": ((("commonName", "ada"),),),
    "subjectAltName": (("DNS", "a.example"), ("DNS", "b.example"), ("email", "ada@example"), ("IP Address", "::1")),
    "notAfter": "Jan  1 00:00:00 2030 GMT",
}


def test_a_name_of_the_holder_is_taken_only_where_it_is_the_only_one_of_its_kind():
    peer = peer_certificate(PEER)
    assert peer is not None and peer.not_after == 1893456000
    said = {kind: peer.name(kind) for kind in ("dn", "cn", "dns", "email", "uri")}
    assert said == {"dn": "CN=ada", "cn": "ada", "dns": None, "email": "ada@example", "uri": None}
    two = peer_certificate({"subject": ((("commonName", "a"), ("commonName", "b")),)})
    assert two is not None and (two.name("cn"), two.not_after) == (None, 0)


def test_without_a_verified_certificate_there_is_none():
    assert peer_certificate(None) is None
    assert peer_certificate({}) is None


def test_the_first_certificate_of_a_file_is_the_servers_own():
    def pem(der: bytes) -> str:
        return ssl.DER_cert_to_PEM_cert(der)

    assert first_certificate("a key before it\n" + pem(b"one") + pem(b"two")) == b"one"
    with pytest.raises(ValueError, match="no PEM certificate"):
        first_certificate(pem(b"one").replace("-----END", "-----"))


def test_a_key_with_a_password_is_an_error_and_no_question_on_the_terminal():
    with pytest.raises(ssl.SSLError, match="encrypted"):
        no_password()
