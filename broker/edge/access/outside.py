"""Who is known elsewhere, to issuers of tokens; and whether logins of theirs still hold.

Rule: puts together what the settings ask for; None where they ask for nothing. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.settings import Settings
from broker.seams.clock import Clock

from .token_logins import TokenLogins


class Outside:
    """tokens   of edge.issuers; None: there are none."""

    def __init__(self, settings: Settings, clock: Clock, changed: Callable[[], None]) -> None:
        """changed: logins may not hold any more. Raises ConfigError."""
        issuers = settings.edge.issuers
        self.tokens = TokenLogins(issuers, clock, changed) if issuers else None

    def start(self) -> None:
        """Looks after what it knows of them from now on."""
        if self.tokens is not None:
            self.tokens.start()

    def holds(self, mark: int) -> bool:
        """Is a login of theirs still right (Principal.mark)."""
        return self.tokens is not None and self.tokens.holds(mark)

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        if self.tokens is not None:
            self.tokens.close()
