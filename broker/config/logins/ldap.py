"""Settings of one LDAP server (OpenLDAP, Active Directory, 389 …) that knows users and their groups.

Rule: as settings.py: plain frozen dataclasses, nothing read from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..fields import setting


@dataclass(frozen=True, slots=True)
class LdapSettings:
    """A directory that is asked by LDAP whether a login and its passcode are right, and for groups.

    Users are found by `user_filter` below `user_base`, or their DN is `user_dn`; then the broker binds as them. Where
    `login_by` of a port has `ldap`. Read at start only."""

    url: str = setting(
        "", "list", "ldaps://HOST[:PORT], or ldap:// with start_tls or on this machine; of one directory"
    )
    start_tls: bool = setting(False, "yes/no", "ldap:// is encrypted before anything is said")
    ca_file: str = setting("", "path", "PEM CAs of its servers; empty: those of the system")
    bind_dn: str = setting("", "DN", "who looks for users and groups; empty: nobody in particular (anonymous)")
    bind_passcode_file: str = setting("", "path", "its passcode: a file, read at each bind; mode 0600")
    user_dn: str = setting("", "DN", "of a user, %u: the login; then nothing is looked for")
    user_base: str = setting("", "DN", "users are looked for below this")
    user_filter: str = setting("(uid=%u)", "filter", "which of them it is, %u: the login; who does not fit is nobody")
    user_prefix: str = setting("", "text", "in front of the login: users of two directories are not the same")
    group_base: str = setting("", "DN", "groups are looked for below this; empty: its users are in none")
    group_filter: str = setting("(member=%d)", "filter", "which of them, %d: the user's DN, %u: the login")
    group_attribute: str = setting("cn", "attribute", "of a group: its name here")
    groups_prefix: str = setting("", "text", "in front of each group")
    changed_attribute: str = setting(
        "", "attribute", "is another one after a change of the passcode: pwdChangedTime, pwdLastSet; empty: none is"
    )
    virtual_hosts: str = setting("", "list", "where its users count; empty: the default host only; *: everywhere")
    remember_s: float = setting(60.0, "seconds", "a right passcode is not asked for again (kept as an HMAC)", least=0)
    refresh_s: float = setting(
        15.0, "seconds", "whether those who came in are still there, with the same groups; other sessions end", least=1
    )
    timeout_s: float = setting(5.0, "seconds", "for one answer of it")
