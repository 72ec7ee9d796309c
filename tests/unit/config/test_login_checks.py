"""Ways to log in, and issuers of tokens, that cannot work or would let too many in."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.checks import check
from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import ConfigError

LDAP = {"url": "ldaps://id.example.org", "user_base": "ou=people,dc=x"}


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
    ("change", "why"),
    [
        ({"url": ""}, "url is empty"), ({"url": "ldap://a.org"}, "ldaps://"), ({"url": "ldaps://a/b"}, "ldaps"),
        ({"url": "https://a"}, "ldaps://"), ({"url": "ldaps://a:b"}, "ldaps://"),
        ({"user_base": ""}, "user_base"), ({"user_dn": "uid=%u,dc=x"}, "not both"), ({"user_filter": "(uid=x)"}, "%u"),
        ({"user_base": "", "user_dn": "uid=x"}, "%u"), ({"group_filter": "(cn=x)", "group_base": "dc=x"}, "%d"),
        ({"bind_dn": "cn=x"}, "bind_passcode_file"), ({"virtual_hosts": "nowhere"}, "'nowhere'"),
    ],
)  # fmt: skip
def test_a_directory_that_would_let_too_many_in_or_hear_passcodes_in_the_clear_is_refused(
    change: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        check(Settings(edge=EdgeSettings(ldap={"x": {**LDAP, **change}})))


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({}, "one of them"), ({"url": "https://a", "python": "a:b"}, "one of them"), ({"url": "http://a.org"}, "https"),
        ({"python": "a.b"}, "MODULE:FUNCTION"), ({"python": "a:"}, "MODULE:FUNCTION"),
        ({"url": "https://a", "virtual_hosts": "nowhere"}, "'nowhere'"),
    ],
)  # fmt: skip
def test_a_hook_that_is_none_or_hears_passcodes_in_the_clear_is_refused(table: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(Settings(edge=EdgeSettings(hooks={"x": table})))


@pytest.mark.parametrize(
    "url", ["ldaps://a.example.org,ldaps://b.example.org:3269", "ldap://localhost", "ldap://[::1]:3"]
)
def test_a_directory_is_encrypted_or_on_this_machine(url: str) -> None:
    check(Settings(edge=EdgeSettings(login_by="passcode,ldap", ldap={"x": {**LDAP, "url": url}})))
    check(Settings(edge=EdgeSettings(ldap={"x": {**LDAP, "url": "ldap://a.example.org", "start_tls": True}})))


@pytest.mark.parametrize(
    ("edge", "why"),
    [({"login_by": "magic"}, "'magic'"), ({"login_by": "token"}, "issues"),
     ({"login_by": "passcode,ldap"}, "directory"), ({"login_by": "hook"}, "nobody to ask"),
     ({"login_by": "hook,ldap", "ldap": {"x": LDAP}, "hooks": {"x": {"python": "a:b"}}}, "ldap behind it"),
     ({"login_by": "ldap,passcode", "ldap": {"x": LDAP}}, "never asked"),
     ({"virtual_hosts": {"shop": {"login_by": "magic"}}}, "'magic'"),
     ({"login_by": "certificate", "tls_port": 1, "tls_cert_file": "c", "tls_key_file": "k"}, "tls_client_ca_file")],
)  # fmt: skip
def test_ways_that_cannot_work_are_refused_at_the_start(edge: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(Settings(edge=EdgeSettings(**edge)))
