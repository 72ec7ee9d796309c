"""Which places are asked over HTTP, and how much of an answer is taken."""

from __future__ import annotations

import pytest

from broker.seams.http_client import fetch, is_safe
from tests.harness.issuer import LocalIssuer


def test_only_safe_places_are_asked() -> None:
    assert is_safe("https://example.org/x") and is_safe("http://127.0.0.1:1/x") and is_safe("http://[::1]/")
    for url in ("http://example.org", "http://127.0.0.1.example.org/", "ftp://127.0.0.1/", "https://", "http://[", "x"):
        assert not is_safe(url)
        with pytest.raises(ValueError, match="https"):
            fetch(url, ca_file="", token_file="", seconds=5, most=10)


def test_an_answer_has_its_bounds() -> None:
    with LocalIssuer() as issuer:
        issuer.key("one")
        with pytest.raises(ValueError, match="larger than 10 bytes"):
            fetch(f"{issuer.url}/keys", ca_file="", token_file="", seconds=5, most=10)
        with pytest.raises(OSError, match="404"):
            fetch(f"{issuer.url}/nothing", ca_file="", token_file="", seconds=5, most=1000)
