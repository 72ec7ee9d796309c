"""Do other settings give an address fewer partitions: also by an entry that is more specific than the one it had them
from.

Rule: says what engine/address_settings.Matcher would say of each entry, in steps of its words: there may be thousands
of entries, and as many patterns.
"""

from __future__ import annotations

from typing import Any

from broker.config.changes import shrunk
from broker.config.settings import EngineSettings
from broker.core.errors import ConfigError
from broker.core.virtual_host import split
from broker.engine.address.address_settings import is_pattern, matches, specificity
from broker.engine.address.trie import Trie


def refuse_shrinking(before: EngineSettings, after: EngineSettings) -> None:
    """Raises ConfigError where an address would have fewer."""
    had, has = Partitions(before), Partitions(after)
    if had.said == has.said:
        return
    for entry in {**before.addresses, **after.addresses}:
        if why := shrunk(entry, {"partitions": had.of(entry)}, {"partitions": has.of(entry)}):
            raise ConfigError(why)


class Partitions:
    """said: entries that say something of partitions."""

    __slots__ = ("_default", "_delimiter", "_patterns", "said")

    def __init__(self, settings: EngineSettings) -> None:
        self.said: dict[str, Any] = {
            name: table["partitions"] for name, table in settings.addresses.items() if "partitions" in table
        }
        self._default = settings.address.partitions
        self._delimiter = settings.wildcard_delimiter
        self._patterns: Trie[str] | None = None

    def of(self, name: str) -> Any:
        """How many an address has, or a pattern where nothing more specific counts."""
        if name in self.said and not is_pattern(name, self._delimiter):
            return self.said[name]
        found = self._matching(name)
        if not found:
            return self._default
        return self.said[max(found, key=lambda pattern: specificity(pattern, self._delimiter))]

    def _matching(self, name: str) -> list[str]:
        words = name.split(self._delimiter)
        if name.startswith("$"):  # a trie gives it to nobody but who names it
            host = split(name).host
            named = [each for each in self._named() if split(each).host == host]
            return [each for each in named if matches(each.split(self._delimiter), words)]
        if self._patterns is None:
            self._patterns = Trie()
            for each in self._named():
                self._patterns.add(each.split(self._delimiter), each)
        return self._patterns.find(words)

    def _named(self) -> list[str]:
        return [name for name in self.said if is_pattern(name, self._delimiter)]
