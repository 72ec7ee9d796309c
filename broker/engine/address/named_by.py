"""Which of many wildcards of queues stand for a name: one look, however many there are.

Rule: each stands for names of its own virtual host, and for none that is the broker's own (`$…`). Must not know who
asks, nor what queues there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.virtual_host import whose

from .trie import Trie


class NamedBy:
    """delimiter   between the words of names."""

    __slots__ = ("_delimiter", "_hosts")

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._hosts: dict[str, Trie[str]] = {}

    def add(self, pattern: str) -> None:
        """One more of them: 2 µs."""
        host, local = whose(pattern)
        trie = self._hosts.get(host)
        if trie is None:
            trie = self._hosts[host] = Trie()
        trie.add(local.split(self._delimiter), pattern)

    def find(self, name: str) -> Sequence[str]:
        """Those that stand for the name."""
        host, local = whose(name)
        trie = self._hosts.get(host)
        return () if trie is None or local.startswith("$") else trie.find(local.split(self._delimiter))
