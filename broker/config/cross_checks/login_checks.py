"""Ways of proving who one is that cannot work: unknown ones, ones without what they need, issuers and
directories that are not safe.

Rule: as checks.py.
"""

from __future__ import annotations

from broker.core.errors import ConfigError
from broker.seams.http_client import is_safe, is_safe_ldap

from ..acceptor import AcceptorSettings
from ..logins.hook import HookSettings
from ..logins.issuer import IssuerSettings
from ..logins.ldap import LdapSettings
from ..logins.login_ways import JUDGES, WAYS
from ..ports import prefixes
from ..settings import Settings

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""With public keys: what a signature of HS256 is made with, an edge that checks it could have made it."""


def check_ways(where: str, text: str, settings: Settings, acceptor: AcceptorSettings | None) -> None:
    """Raises ConfigError. acceptor: whose they are; None: of a virtual host, which has any."""
    ways = prefixes(text)
    for way in ways:
        if way not in WAYS:
            raise ConfigError(f"{where}: {way!r} is no way to log in; known are {', '.join(WAYS)}.")
    if "token" in ways and not settings.edge.issuers:
        raise ConfigError(f"{where} has token, but nobody issues any; add [edge.issuers.NAME].")
    if "ldap" in ways and not settings.edge.ldap:
        raise ConfigError(f"{where} has ldap, but there is no directory to ask; add [edge.ldap.NAME].")
    if "hook" in ways and not settings.edge.hooks:
        raise ConfigError(f"{where} has hook, but there is nobody to ask; add [edge.hooks.NAME].")
    first = next((way for way in ways if way in JUDGES), "")
    for never in ways[ways.index(first) + 1 :] if first else ():
        if never == "passcode" or never in JUDGES:
            raise ConfigError(
                f"{where}: {first} decides of every passcode, so {never} behind it is never asked"
                + ("; put it in front: it then decides of the users of the table." if never == "passcode" else ".")
            )
    if acceptor is None or "certificate" not in ways or acceptor.port < 0 or not acceptor.tls:
        return
    if not acceptor.tls_client_ca_file:
        raise ConfigError(f"{where} has certificate, which needs tls_client_ca_file: who signs the clients.")


def check_issuers(settings: Settings) -> None:
    """Raises ConfigError for the first contradiction."""
    names: dict[str, str] = {}
    for name, table in settings.edge.issuers.items():
        where, said = f"edge.issuers.{name}", IssuerSettings(**table)
        if not is_safe(said.issuer) or (said.jwks_url and not is_safe(said.jwks_url)):
            raise ConfigError(f"{where}: issuer and jwks_url must be https URLs, or http on this machine.")
        if not prefixes(said.audience):
            raise ConfigError(
                f"{where}.audience is empty, so tokens for anything else would count; name this broker's."
            )
        for algorithm in prefixes(said.algorithms):
            if algorithm not in ALGORITHMS:
                raise ConfigError(f"{where}.algorithms: {algorithm!r} is not one of {', '.join(ALGORITHMS)}.")
        if not prefixes(said.algorithms):
            raise ConfigError(f"{where}.algorithms is empty, so no token would count; RS256,ES256 is the default.")
        if other := names.get(said.issuer):
            raise ConfigError(f"{where}: {said.issuer} is edge.issuers.{other} already; put both into one.")
        names[said.issuer] = name
        check_hosts(where, said.virtual_hosts, settings)
    check_ldap(settings)
    check_hooks(settings)
    for host, table in settings.edge.virtual_hosts.items():
        check_ways(f'edge.virtual_hosts."{host}".login_by', table.get("login_by", ""), settings, None)


def check_ldap(settings: Settings) -> None:
    """Raises ConfigError for the first contradiction."""
    for name, table in settings.edge.ldap.items():
        where, said = f"edge.ldap.{name}", LdapSettings(**table)
        if not prefixes(said.url):
            raise ConfigError(f"{where}.url is empty; give ldaps://HOST.")
        for url in prefixes(said.url):
            if not is_safe_ldap(url, said.start_tls):
                raise ConfigError(
                    f"{where}.url: {url[:100]!r} must be ldaps://HOST[:PORT], or ldap:// with start_tls = true or on "
                    "this machine: passcodes go there."
                )
        if bool(said.user_dn) == bool(said.user_base):
            raise ConfigError(
                f"{where}: say user_base (where users are looked for) or user_dn (what they are), not both."
            )
        if "%u" not in (said.user_dn or said.user_filter):
            raise ConfigError(f"{where}: user_dn or user_filter needs %u, or every login were the same user.")
        if said.group_base and "%d" not in said.group_filter and "%u" not in said.group_filter:
            raise ConfigError(f"{where}.group_filter needs %d or %u, or everybody were in all groups.")
        if bool(said.bind_dn) != bool(said.bind_passcode_file):
            raise ConfigError(f"{where}: bind_dn and bind_passcode_file go together.")
        check_hosts(where, said.virtual_hosts, settings)


def check_hooks(settings: Settings) -> None:
    """Raises ConfigError for the first contradiction."""
    for name, table in settings.edge.hooks.items():
        where, said = f"edge.hooks.{name}", HookSettings(**table)
        if bool(said.url) == bool(said.python):
            raise ConfigError(f"{where}: say url or python, one of them.")
        if said.url and not is_safe(said.url):
            raise ConfigError(f"{where}.url must be https, or http on this machine: passcodes go there.")
        if said.python and (said.python.count(":") != 1 or not all(said.python.split(":"))):
            raise ConfigError(f"{where}.python must be MODULE:FUNCTION, as in company.logins:judge.")
        check_hosts(where, said.virtual_hosts, settings)


def check_hosts(where: str, text: str, settings: Settings) -> None:
    """Virtual hosts where users of a directory, issuer or hook count. Raises ConfigError."""
    for host in prefixes(text):
        if host != "*" and host not in settings.edge.virtual_hosts:
            raise ConfigError(f"{where}.virtual_hosts: there is no virtual host {host!r}.")
