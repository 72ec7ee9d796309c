"""What the audit log has of clients: logins and failed ones, what was denied, and how connections of users ended.

Lines of JSON as those of the API (admin/api/audit.py, the same logger and fields); docs/security.md has the schema.

Rule: never a passcode, token or body. A login that is nobody's is not told: it may be a passcode in the wrong place.
"""

from __future__ import annotations

import json
import logging
from typing import Final, Protocol

MOST: Final = 200
"""Characters of a name that is told."""
_log = logging.getLogger("stampede.audit")


class Audited(Protocol):
    """Whose connection it is."""

    @property
    def id(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def client_id(self) -> str: ...


def note(session: Audited, peer: str, action: str, outcome: str, who: str = "", target: str = "") -> None:
    """outcome: done, or the name of what was wrong. who: if it is not its user."""
    entry = {
        "who": (who or session.principal)[:MOST], "from": peer, "action": action, "target": target[:MOST],
        "outcome": outcome, "connection": session.id, "client_id": session.client_id[:MOST],
    }  # fmt: skip
    _log.info("%s", json.dumps(entry, ensure_ascii=False))
