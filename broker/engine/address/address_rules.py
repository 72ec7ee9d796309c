"""What an address does with messages beside passing them on.

Rule: a value, looked up by name and remembered; None is the plain address, so that the plain path asks one question.
What changes while messages come (usages, known ids) is kept by those who act. Must not know queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.config.addressing import AddressSettings, DivertSettings

from .quota import limited

_REMEMBERED = 1024
"""Settings whose rules are kept (with the settings: an id is good as long as its object lives)."""


class Rules:
    """settings     of the address.
    diverts      (name, settings) of those that start here, by name.
    limited      there is a limit of bytes or messages.
    aging        settings say how long messages live.
    retroactive  messages are kept for queues to come.
    stamped      messages say when they were taken.
    choosy       nothing enters a queue without consumers: one that a message makes has none."""

    __slots__ = ("aging", "choosy", "diverts", "limited", "retroactive", "settings", "stamped")

    def __init__(self, settings: AddressSettings, diverts: tuple[tuple[str, DivertSettings], ...] = ()) -> None:
        self.settings = settings
        self.diverts = diverts
        self.limited = limited(settings)
        self.aging = settings.no_expiry or (
            max(settings.expiry_delay_ms, settings.min_expiry_delay_ms, settings.max_expiry_delay_ms) >= 0
        )
        self.retroactive = settings.retroactive_messages > 0
        self.stamped = settings.ingress_timestamp
        self.choosy = settings.purge_on_no_consumers

    def plain(self) -> bool:
        """Nothing special at all."""
        asks = self.limited or self.aging or self.retroactive or self.diverts or self.stamped or self.choosy
        return not (asks or self.settings.send_to_dla_on_no_route)


OWNED: Final = Rules(AddressSettings())
"""Of an address that is plain but for a queue that counts for a user: there may be somebody whom it is refused
(state/makers.py), and nothing else is looked at."""


class Rulebook:
    """Rules by address, remembered by settings (a Matcher gives equal addresses the same object), and by name where
    diverts start."""

    __slots__ = ("_diverting", "_diverts", "_known", "_match")

    def __init__(
        self, match: Callable[[str], AddressSettings], diverts: Mapping[str, tuple[tuple[str, DivertSettings], ...]]
    ) -> None:
        """diverts: by the address where they start."""
        self._match = match
        self._known: dict[int, tuple[AddressSettings, Rules | None]] = {}
        self._diverting: dict[str, Rules] = {}
        self._diverts = diverts

    def __call__(self, name: str) -> Rules | None:
        """By the settings alone, for any address; None: plain. One with queues has its own answer in `Address.rules`,
        which is never None while one of its queues has a filter."""
        # Diverts hang on the name, not on the settings: two addresses with equal settings share a Matcher's object,
        # and may have different diverts.
        if name in self._diverts:
            if name not in self._diverting:
                self._diverting[name] = Rules(self._match(name), self._diverts[name])
            return self._diverting[name]
        settings = self._match(name)
        known = self._known.get(id(settings))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                # All of it rather than the oldest: it is filled again with what is in use, and a cache with an order
                # costs each message.
                self._known.clear()
            rules = Rules(settings)
            known = self._known[id(settings)] = (settings, None if rules.plain() else rules)
        return known[1]
