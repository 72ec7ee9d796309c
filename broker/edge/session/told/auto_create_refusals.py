"""What a client is told whose command an owner has not carried out because it would have made something, or sent to a
queue whose maker may keep no more.

Rule: the owner says that something is not there; why it was not to be made only this side knows: a quota is full, the
user lacks the right, or the port makes nothing for anybody. Must not know sessions.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.errors import Code, RefusedError

from ...quotas.quotas import Usage
from ...rights.permissions import CREATE, Rights, not_created


def not_made(
    usage: Usage | None, rights: Rights | None, user: str, detail: str, deny: Callable[[str], None]
) -> RefusedError:
    """deny: counts that an operation was refused. The quota first: it withholds from those alone who have the right."""
    if usage is not None and (short := usage.withheld()) is not None:
        return short
    if rights is None:
        return RefusedError(Code.NO_SUCH_DESTINATION, detail)  # whoever asks (Destination.create)
    deny(CREATE)
    return RefusedError(Code.NOT_ALLOWED, not_created(user, detail))


def full_queue(usage: Usage | None, detail: str) -> str:
    """detail: of the owner, which names nobody: limits and counts are of him who has made the queue. Of his own the
    sender hears: it may be his queue, and he can do something about it."""
    own = usage.own_full() if usage is not None else ""
    return f"{detail} ({own})" if own else detail
