"""The audit log: one line of JSON for each change that was asked for, whether it was made or refused.

Rule: who, from where, what, on what, how it ended; never a passcode or the body of a message. Logger `stampede.audit`.
"""

from __future__ import annotations

import json
import logging
from typing import Any

_log = logging.getLogger("stampede.audit")


def note(who: str, peer: str, action: str, target: str, outcome: str, **more: Any) -> None:
    """outcome: done, or the name of the problem; given-up = who asked has gone before the end; a change of
    settings or users is made all the same, or refused in the log."""
    entry = {"who": who, "from": peer, "action": action, "target": target, "outcome": outcome, **more}
    _log.info("%s", json.dumps(entry, ensure_ascii=False, default=str))
