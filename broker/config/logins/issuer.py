"""Settings of one issuer of tokens.

Rule: as settings.py: plain frozen dataclasses, nothing read from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..fields import setting


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """An issuer of tokens (JWT): an OpenID Connect provider, or a Kubernetes cluster for its service accounts.

    Its keys come from `jwks_url`, or from where its discovery document says. Where `login_by` of a port has `token`.
    Read at start only."""

    issuer: str = setting("", "URL", "`iss` of its tokens, letter by letter; https, or http on this machine")
    audience: str = setting("", "list", "`aud` of tokens for this broker: one of these")
    jwks_url: str = setting("", "URL", "where its keys are; empty: as ISSUER/.well-known/openid-configuration says")
    ca_file: str = setting("", "path", "PEM CAs of its server; empty: those of the system")
    token_file: str = setting(
        "", "path", "what to ask it with, as a bearer token (Kubernetes: a pod's own); empty: nothing"
    )
    algorithms: str = setting("RS256,ES256", "list", "of signatures that count; only ones with public keys")
    leeway_s: float = setting(30.0, "seconds", "its clock and ours may differ", least=0)
    user_claim: str = setting("sub", "claim", "says who the user is")
    user_prefix: str = setting("", "text", "in front of that: users of two issuers, or of the table, are not the same")
    groups_claim: str = setting("groups", "claim", "says the groups: a list, or words; a.b: b of a")
    groups_prefix: str = setting("", "text", "in front of each group")
    virtual_hosts: str = setting("", "list", "where its tokens count; empty: the default host only; *: everywhere")
    refresh_s: float = setting(300.0, "seconds", "keys are asked for again; sessions whose key is gone end then")
    timeout_s: float = setting(5.0, "seconds", "for one answer of it")
