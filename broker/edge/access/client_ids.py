"""Whose a client-id is: the pattern of the acceptor, with the user's name in it, says what a user may call himself.

Durable subscriptions and takeovers go by client-id, so that who has another's has its messages. A client-id that fits
two users (`ada.eu` may be one of `ada`, and is the name of another) is that of the longer name.

Rule: asked at CONNECT and for durable names, never per message; decides and keeps nothing. Must not know sessions.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.ports import prefixes
from broker.core.errors import Code, RefusedError

from .users import MAX_NAME

ANY = "*"
"""The pattern that is everybody's."""

Knows = Callable[[str], bool]
"""Is there a user of that name."""


def check_client_id(patterns: str, user: str, client_id: str, knows: Knows) -> None:
    """Raises RefusedError unless it is the user's. patterns: AcceptorSettings.client_ids."""
    wanted = prefixes(patterns)
    if ANY in wanted:
        return
    if not any(_fits(pattern, user, client_id) for pattern in wanted):
        shown = [pattern.replace("%u", user[:50]) for pattern in wanted]
        raise _not_yours(client_id, user, f"take {' or '.join(shown[:2])}, or set edge.client_ids")
    if other := _longer(user, client_id, knows):
        raise _not_yours(client_id, user, f"it is one of user '{other}'; take another one")


def check_durable(patterns: str, user: str, queue: str, knows: Knows) -> None:
    """Raises RefusedError where the queue of a durable subscription (client-id.name) would be named like one of another
    user, whose name is longer."""
    if ANY not in prefixes(patterns) and (other := _longer(user, queue, knows)) and other != queue:
        raise RefusedError(
            Code.NOT_ALLOWED,
            f"the durable subscription '{queue[:100]}' would be one of user '{other}'; give it another name",
        )


def fronts(patterns: str, user: str) -> list[str]:
    """What the names of a user's durable subscriptions begin with, as far as the patterns tell: up to there, or to
    where its last word ends."""
    wanted = [front for pattern in prefixes(patterns) if "%u" in (front := pattern.partition(ANY)[0])]
    # `ada.` says no more than `ada` does.
    shortest = dict.fromkeys(front if front[-1].isalnum() else front[:-1] for front in wanted)
    return [front.replace("%u", user) for front in shortest]


def _fits(pattern: str, user: str, client_id: str) -> bool:
    # A user may be called `*` or `a*`, by a claim that he chooses himself: that stands for nothing but itself.
    front, star, back = (part.replace("%u", user) for part in pattern.partition(ANY))
    if not star:
        return client_id == front
    return len(client_id) > len(front) + len(back) and client_id.startswith(front) and client_id.endswith(back)


def _longer(user: str, name: str, knows: Knows) -> str:
    """Another user whose name is longer and whose names this is among; empty: there is none."""
    for end in range(len(user) + 1, min(len(name), MAX_NAME) + 1):
        if (end == len(name) or not name[end].isalnum()) and knows(name[:end]):
            return name[:end]
    return ""


def _not_yours(client_id: str, user: str, fix: str) -> RefusedError:
    return RefusedError(Code.NOT_ALLOWED, f"client-id:{client_id[:100]} is not one of user '{user[:100]}': {fix}")
