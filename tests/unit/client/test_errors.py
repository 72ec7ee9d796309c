"""What an ERROR reads like to whoever catches it."""

from __future__ import annotations

import pytest

from broker.client.errors import ServerError


@pytest.mark.parametrize(
    ("message", "body", "text"),
    [
        ("Invalid destination: use\\c /queue/x", "", "Invalid destination: use\\c /queue/x"),
        ("Invalid destination: a b", "a\n b", "Invalid destination: a b"),
        ("Invalid destination", "use /queue/x", "Invalid destination: use /queue/x"),
    ],
)
def test_an_error_says_each_thing_once(message: str, body: str, text: str) -> None:
    assert str(ServerError(1303, message, body)) == text
