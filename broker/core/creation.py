"""May a command make what is not there, and for whom.

Rule: one value, so that a part of a transaction, or an answer, that may make something cannot lose for whom.
"""

from __future__ import annotations

Creation = bool | str
"""No, yes, or yes and it counts for a user (edge.quotas), whose name this is."""


def maker_of(creation: Creation) -> str:
    """Whose what is made is; empty: nobody's."""
    return creation if isinstance(creation, str) else ""
