"""Who is known elsewhere, as far as the settings say."""

from __future__ import annotations

from broker.config.settings import EdgeSettings, Settings
from broker.edge.access.external_logins import ExternalLogins
from broker.seams.clock import SystemClock


def test_without_issuers_nobody_is() -> None:
    outside = ExternalLogins(Settings(), SystemClock(), lambda: None, list)
    assert outside.tokens is None and not outside.still_valid(0) and not outside.still_valid(7)
    outside.close()


def test_a_login_of_a_key_that_nobody_has_does_not_hold() -> None:
    issuers = {"x": {"issuer": "https://id.example.org", "audience": "us"}}
    outside = ExternalLogins(Settings(edge=EdgeSettings(issuers=issuers)), SystemClock(), lambda: None, list)
    assert outside.tokens is not None and not outside.still_valid(7)
    outside.close()
