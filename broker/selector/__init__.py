"""Selectors: SQL-like conditions over the headers of messages.

Rule: a text is compiled once and evaluated on bytes; only the headers it names are looked for. Must not know queues,
consumers or sessions.
"""

from .predicate import Key, Predicate, compile

__all__ = ["Key", "Predicate", "compile"]
