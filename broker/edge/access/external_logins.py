"""Who is known elsewhere, to issuers of tokens, directories and hooks; and whether logins of theirs still hold.

Rule: puts together what the settings ask for; None where they ask for nothing. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from broker.config.settings import Settings
from broker.core.virtual_host import VirtualHost
from broker.seams.clock import Clock

from ..transport.channel import Channel
from .auth import Principal
from .hook_logins import HookLogins
from .ldap_logins import LdapLogins
from .token_logins import TokenLogins


class PasscodeJudge(Protocol):
    """Who says whether a login and its passcode are right."""

    def start(self) -> None:
        """From now on it looks after those who came in."""
        ...

    def known(self, login: str, passcode: str, host: VirtualHost, channel: Channel) -> Principal | None:
        """Whose login this is, if that was found a moment ago."""
        ...

    async def prove(self, login: str, passcode: str, host: VirtualHost, channel: Channel) -> Principal:
        """Raises RefusedError(LOGIN_FAILED)."""
        ...

    def still_valid(self, mark: int) -> bool:
        """Is a login still right (Principal.mark)."""
        ...

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        ...


class ExternalLogins:
    """tokens   of edge.issuers; None: there are none.
    by_passcode   way of `login_by` → who judges login and passcode, where the settings name any."""

    def __init__(
        self, settings: Settings, clock: Clock, changed: Callable[[], None], here: Callable[[], Collection[int]]
    ) -> None:
        """changed: logins may not hold any more. here: marks of those who are connected. Raises ConfigError."""
        issuers = settings.edge.issuers
        self.tokens = TokenLogins(issuers, clock, changed) if issuers else None
        self.by_passcode: dict[str, PasscodeJudge] = {}
        if settings.edge.ldap:
            self.by_passcode["ldap"] = LdapLogins(settings.edge.ldap, clock, changed, here)
        if settings.edge.hooks:
            self.by_passcode["hook"] = HookLogins(settings.edge.hooks, clock)

    def start(self) -> None:
        """Looks after what it knows of them from now on."""
        for each in self._all():
            each.start()

    def still_valid(self, mark: int) -> bool:
        """Is a login of theirs still right (Principal.mark)."""
        return any(each.still_valid(mark) for each in self._all())

    def close(self) -> None:
        """Ends their threads; does not wait for them."""
        for each in self._all():
            each.close()

    def _all(self) -> list[TokenLogins | PasscodeJudge]:
        tokens = [self.tokens] if self.tokens is not None else []
        return [*tokens, *self.by_passcode.values()]
