"""Ways to log in, and issuers of tokens, that cannot work or would let too many in."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.checks import check
from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import ConfigError


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"issuer": "http://example.org"}, "https"), ({"audience": ""}, "audience"),
        ({"algorithms": "HS256"}, "'HS256'"), ({"algorithms": "none"}, "'none'"), ({"algorithms": ""}, "algorithms"),
        ({"virtual_hosts": "nowhere"}, "'nowhere'"), ({"jwks_url": "file:///etc/passwd"}, "jwks_url"),
    ],
)  # fmt: skip
def test_settings_that_would_let_too_many_in_are_refused(change: dict[str, str], why: str) -> None:
    table = {"issuer": "https://id.example.org", "audience": "us", **change}
    with pytest.raises(ConfigError, match=why):
        check(Settings(edge=EdgeSettings(issuers={"x": table})))


@pytest.mark.parametrize(
    ("edge", "why"),
    [({"login_by": "magic"}, "'magic'"), ({"login_by": "token"}, "issues"),
     ({"virtual_hosts": {"shop": {"login_by": "magic"}}}, "'magic'"),
     ({"login_by": "certificate", "tls_port": 1, "tls_cert_file": "c", "tls_key_file": "k"}, "tls_client_ca_file")],
)  # fmt: skip
def test_ways_that_cannot_work_are_refused_at_the_start(edge: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(Settings(edge=EdgeSettings(**edge)))
