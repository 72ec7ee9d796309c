"""Selectors: SQL-like conditions over the headers of messages.

Rule: a text is compiled once and evaluated on bytes; only the headers it names are looked for. Must not know queues,
consumers or sessions.
"""

from .index import Asking, Index
from .parser import conjunction
from .predicate import NOTHING, WORDS, Predicate, compile, stored

__all__ = ["NOTHING", "WORDS", "Asking", "Index", "Predicate", "compile", "conjunction", "stored"]
