"""Ways of proving who one is that cannot work: unknown ones, ones without what they need, issuers that are not safe.

Rule: as checks.py.
"""

from __future__ import annotations

from broker.core.errors import ConfigError
from broker.seams.web import is_safe

from .acceptor import AcceptorSettings
from .issuer import IssuerSettings
from .ports import prefixes
from .settings import Settings

WAYS = ("certificate", "token", "passcode")
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""With public keys: what a signature of HS256 is made with, whoever checks it could have made it."""


def check_ways(where: str, text: str, settings: Settings, acceptor: AcceptorSettings | None) -> None:
    """Raises ConfigError. acceptor: whose they are; None: of a virtual host, which has any."""
    ways = prefixes(text)
    for way in ways:
        if way not in WAYS:
            raise ConfigError(f"{where}: {way!r} is no way to log in; known are {', '.join(WAYS)}.")
    if "token" in ways and not settings.edge.issuers:
        raise ConfigError(f"{where} has token, but nobody issues any; add [edge.issuers.NAME].")
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
        for host in prefixes(said.virtual_hosts):
            if host != "*" and host not in settings.edge.virtual_hosts:
                raise ConfigError(f"{where}.virtual_hosts: there is no virtual host {host!r}.")
    for host, table in settings.edge.virtual_hosts.items():
        check_ways(f'edge.virtual_hosts."{host}".login_by', table.get("login_by", ""), settings, None)
