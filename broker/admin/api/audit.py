"""The audit log: one line of JSON for each change that was asked for, whether it was made or refused.

Rule: who, from where, what, on what, how it ended; never a passcode or the body of a message. Logger `stampede.audit`.
"""

from __future__ import annotations

import json
import logging
from typing import Any

MOST = 16 * 1024
"""Characters of what was before, and of what is now: an entry of a config file may be as long as it likes."""
_log = logging.getLogger("stampede.audit")


def note(who: str, peer: str, action: str, target: str, outcome: str, **more: Any) -> None:
    """outcome: done, or the name of the problem; given-up = who asked has gone before the end; a change of
    settings or users is made all the same, or refused in the log."""
    bounded = {name: _cut(value) for name, value in more.items()}
    entry = {"who": who, "from": peer, "action": action, "target": target, "outcome": outcome, **bounded}
    _log.info("%s", json.dumps(entry, ensure_ascii=False, default=str))


def _cut(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= MOST else f"{text[:MOST]}… ({len(text)} characters)"
