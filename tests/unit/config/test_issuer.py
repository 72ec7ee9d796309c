"""What an issuer is without a word said of it: nothing that lets more in than it must."""

from __future__ import annotations

from broker.config.cross_checks.login_checks import ALGORITHMS
from broker.config.logins.issuer import IssuerSettings
from broker.config.ports import prefixes


def test_what_is_not_said_is_narrow() -> None:
    said = IssuerSettings()
    assert said.audience == "" and said.virtual_hosts == "" and set(prefixes(said.algorithms)) <= set(ALGORITHMS)
    assert not any(name.startswith(("HS", "none")) for name in ALGORITHMS)
