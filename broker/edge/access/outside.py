"""Who is known elsewhere, to issuers of tokens and to directories; and whether logins of theirs still hold.

Rule: puts together what the settings ask for; None where they ask for nothing. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.settings import Settings
from broker.seams.clock import Clock

from .ldap_logins import LdapLogins
from .token_logins import TokenLogins


class Outside:
    """tokens   of edge.issuers; None: there are none.    ldap   of edge.ldap, likewise."""

    def __init__(self, settings: Settings, clock: Clock, changed: Callable[[], None]) -> None:
        """changed: logins may not hold any more. Raises ConfigError."""
        issuers = settings.edge.issuers
        self.tokens = TokenLogins(issuers, clock, changed) if issuers else None
        self.ldap = LdapLogins(settings.edge.ldap, clock, changed) if settings.edge.ldap else None

    def start(self) -> None:
        """Looks after what it knows of them from now on."""
        for each in (self.tokens, self.ldap):
            if each is not None:
                each.start()

    def holds(self, mark: int) -> bool:
        """Is a login of theirs still right (Principal.mark)."""
        return any(each is not None and each.holds(mark) for each in (self.tokens, self.ldap))

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        for each in (self.tokens, self.ldap):
            if each is not None:
                each.close()
