"""Selectors: SQL-like conditions over the headers of messages.

Rule: a text is compiled once and evaluated on bytes; only the headers it names are looked for. Must not know queues,
consumers or sessions.
"""

from .predicate import NOTHING, Key, Predicate, compile, stored

__all__ = ["NOTHING", "Key", "Predicate", "compile", "stored"]
